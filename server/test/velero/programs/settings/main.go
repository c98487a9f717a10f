// Command settings prints the settings of the Velero with which it is built, as JSON: the flags of its programs, each
// with its type, and the keys of its ConfigMaps, each with a path in which "[]" stands for an element of a list and "*"
// for any key.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vmware-tanzu/velero/pkg/client"
	"github.com/vmware-tanzu/velero/pkg/cmd/cli/install"
	"github.com/vmware-tanzu/velero/pkg/cmd/cli/nodeagent"
	"github.com/vmware-tanzu/velero/pkg/cmd/cli/repomantenance"
	"github.com/vmware-tanzu/velero/pkg/cmd/server"
	"github.com/vmware-tanzu/velero/pkg/repository/udmrepo"
	"github.com/vmware-tanzu/velero/pkg/types"
)

func main() {
	factory := client.NewFactory("velero", client.VeleroConfig{})
	settings := struct {
		Flags map[string]map[string]string `json:"flags"` // types, by program and flag
		Keys  map[string]map[string]string `json:"keys"`  // types, by ConfigMap and path
	}{map[string]map[string]string{}, map[string]map[string]string{}}
	for name, command := range map[string]*cobra.Command{
		"install": install.NewCommand(factory), "server": server.NewCommand(factory),
		"node-agent": nodeagent.NewServerCommand(factory), "repo-maintenance": repomantenance.NewCommand(factory),
	} {
		flags := map[string]string{}
		command.Flags().VisitAll(func(f *pflag.Flag) { flags[f.Name] = f.Value.Type() })
		settings.Flags[name] = flags
	}
	kinds := map[string]any{"node-agent": types.NodeAgentConfigs{}, "repo-maintenance": types.JobConfigs{}}
	for name, value := range kinds {
		keys := map[string]string{}
		collect(reflect.TypeOf(value), "", keys)
		settings.Keys[name] = keys
	}
	settings.Keys["repository"] = map[string]string{
		udmrepo.StoreOptionCacheLimit: "int", udmrepo.StoreOptionKeyFullMaintenanceInterval: "string",
	}
	out, err := json.MarshalIndent(settings, "", "  ")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(string(out))
}

// collect adds the keys of a type that have no keys of their own.
func collect(t reflect.Type, at string, keys map[string]string) {
	switch t.Kind() {
	case reflect.Pointer:
		collect(t.Elem(), at, keys)
	case reflect.Slice:
		collect(t.Elem(), at+"[]", keys)
	case reflect.Map:
		collect(t.Elem(), at+".*", keys)
	case reflect.Struct:
		for i := range t.NumField() {
			field := t.Field(i)
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name == "" {
				name = field.Name
			}
			collect(field.Type, strings.TrimPrefix(at+"."+name, "."), keys)
		}
	default:
		keys[at] = t.Kind().String()
	}
}
