package app

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/client-go/rest"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/plugins"
	"github.com/cleat-dev/cleat/plugins/itemactions"
)

// BuiltIns returns the plugins that are linked into the server. They use the cluster and the namespace that the
// functions return when a plugin needs them.
func BuiltIns(cluster func() (*rest.Config, error), namespace func() (string, error)) []framework.Registration {
	return plugins.All(itemactions.WithConfig(cluster), itemactions.WithNamespace(namespace))
}

// CheckVolumes returns an error unless the data movers of the project can keep the data of volumes in a location.
func CheckVolumes(spec *velerov1.BackupStorageLocationSpec) error {
	config := map[string]string{}
	maps.Copy(config, spec.Config)
	if spec.ObjectStorage != nil {
		config["bucket"], config["prefix"] = spec.ObjectStorage.Bucket, spec.ObjectStorage.Prefix
		config["caCert"] = string(spec.ObjectStorage.CACert)
	}
	return plugins.CheckVolumes(spec.Provider, config)
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
