// Command cleat-restic is the plugin with the data mover cleat.dev/restic. It needs the restic program.
package main

import (
	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/plugins/restic"
)

func main() { framework.Serve(restic.Register()) }
