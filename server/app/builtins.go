package app

import (
	"fmt"
	"slices"

	"k8s.io/client-go/rest"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/plugins"
	"github.com/cleat-dev/cleat/plugins/itemactions"
)

// BuiltIns returns the plugins that are linked into the server. They use the cluster and the namespace that the
// functions return when a plugin needs them.
func BuiltIns(cluster func() (*rest.Config, error), namespace func() (string, error)) []framework.Registration {
	return plugins.All(itemactions.WithConfig(cluster), itemactions.WithNamespace(namespace))
}

// checkDisabled returns an error if the configuration disables a built-in plugin that does not exist.
func checkDisabled(names []string, builtIns []framework.Registration) error {
	for _, name := range names {
		if name != "*" && !slices.ContainsFunc(builtIns, func(r framework.Registration) bool { return r.Name() == name }) {
			return fmt.Errorf("plugins.disabledBuiltIns: there is no built-in plugin %q; \"cleat plugin get\" lists them, and "+
				"\"*\" stands for all", name)
		}
	}
	return nil
}
