// Command cleat is the server and the command line of cleat.
package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"syscall"

	"github.com/cleat-dev/cleat/server/cli"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/restorewait"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
)

// linked is the version of a release, set by the linker.
var linked string

// version returns the version of a release, or of the module if "go install ...@v1.2.3" built the program.
func version() string {
	build, ok := debug.ReadBuildInfo()
	if linked == "" && ok && build.Main.Version != "(devel)" {
		return cmp.Or(build.Main.Version, "dev")
	}
	return cmp.Or(linked, "dev")
}

// arguments returns the arguments of the process. Under another name, the program is one of its commands.
func arguments() []string {
	if filepath.Base(os.Args[0]) == restorewait.Link {
		return append([]string{restorewait.Name}, os.Args[1:]...)
	}
	return os.Args[1:]
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := cli.New(command.Streams{Out: os.Stdout, Err: os.Stderr}, version(), arguments()).ExecuteContext(ctx)
	stop()
	if err != nil {
		if !command.IsQuiet(err) {
			fmt.Fprintf(os.Stderr, "cleat: %s\n", layout.Printable(err.Error())) // it may quote text of other origin
		}
		os.Exit(1)
	}
}
