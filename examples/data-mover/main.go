// Command data-mover moves the data of PersistentVolumeClaims to a bucket and back, as a vendor would deliver it: one
// program is the plugin and the controller that does the work. See README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/cleat-dev/cleat/examples/data-mover/controller"
	"github.com/cleat-dev/cleat/examples/data-mover/plugin"
	"github.com/cleat-dev/cleat/framework"
)

func main() {
	command := ""
	if len(os.Args) > 1 {
		command = os.Args[1]
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var err error
	switch command {
	case "controller":
		err = controller.Run(ctx, os.Args[2:])
	case "install":
		err = controller.Install(ctx)
	default: // started by a server, with the server's flags
		stop()
		framework.Serve(plugin.Registrations()...)
		return
	}
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "data-mover %s: %v\n", command, err)
		os.Exit(1)
	}
}
