// Command builtins serves copies of all plugins that are part of the server.
package main

import (
	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/plugins"
)

func main() { framework.Serve(plugins.All()...) }
