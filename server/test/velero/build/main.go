// Command build builds Velero and its object store plugin into the user's cache, unless they already exist.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/cleat-dev/cleat/server/test/velero"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	_, err := velero.Build(ctx, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "velero:", err)
		os.Exit(1)
	}
}
