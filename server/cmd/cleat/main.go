// Command cleat is the server and the command line of cleat.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/cleat-dev/cleat/server/cli"
)

// version is set when a release is linked.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := cli.New(cli.Streams{Out: os.Stdout, Err: os.Stderr}, version, os.Args[1:]).ExecuteContext(ctx)
	stop()
	if err != nil {
		if !cli.IsQuiet(err) {
			fmt.Fprintf(os.Stderr, "cleat: %v\n", err)
		}
		os.Exit(1)
	}
}
