// Command cleat-kopia is the plugin with the data mover cleat.dev/kopia.
package main

import (
	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/plugins/kopia"
)

func main() { framework.Serve(kopia.Register()) }
