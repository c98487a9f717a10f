// Command shop is the program of the pods that are rehearsed:
//
//	shop serve ADDRESS        accepts connections until it is ended
//	shop reach ADDRESS        fails unless a connection to ADDRESS can be made
//	shop shut ADDRESS         fails unless connections to ADDRESS fail, after a moment for the network to be set up
//	shop fail                 fails
//	shop done                 does nothing
package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "shop:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 2 && args[0] == "serve":
		return serve(args[1])
	case len(args) == 2 && args[0] == "reach":
		return reach(args[1])
	case len(args) == 2 && args[0] == "shut":
		const moment = 30 * time.Second
		for began := time.Now(); ; time.Sleep(200 * time.Millisecond) {
			if err := reach(args[1]); err != nil {
				fmt.Println(err)
				return nil
			}
			if time.Since(began) > moment {
				return fmt.Errorf("%s was reached for %s", args[1], moment)
			}
		}
	case len(args) == 1 && args[0] == "fail":
		return errors.New("the shelves are empty")
	case len(args) == 1 && args[0] == "done":
		return nil
	}
	return fmt.Errorf("unknown arguments %q", args)
}

func serve(address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	<-end
	return nil
}

func reach(address string) error {
	conn, err := net.DialTimeout("tcp", address, 3*time.Second)
	if err != nil {
		return err
	}
	return conn.Close()
}
