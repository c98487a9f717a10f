package clientconfig

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cleat-dev/cleat/server/cli/command"
)

// known are the keys of the file, and whether cleat acts on them.
var known = map[string]bool{"namespace": true, "cacert": true, "features": false, "colorized": false}

// NewCommand returns the command "client".
func NewCommand(a *command.App) *cobra.Command {
	return command.NewParent("client", "Work with this client", command.NewParent("config",
		"Work with the configuration file of this client, which is the one of Velero's client", newGetCommand(a),
		newSetCommand(a)))
}

func newGetCommand(a *command.App) *cobra.Command {
	return &cobra.Command{
		Use:   "get [KEY...]",
		Short: "Print values of the file, all without a key",
		RunE: func(_ *cobra.Command, keys []string) error {
			c, err := command.ReadClientConfig()
			if err != nil {
				return err
			}
			if len(keys) == 0 {
				keys = slices.Sorted(maps.Keys(c.Values))
			}
			for _, key := range keys {
				value, found := c.Values[key]
				if !found {
					value = "<NOT SET>"
				}
				fmt.Fprintf(a.Out, "%s: %v\n", key, value)
			}
			return nil
		},
	}
}

func newSetCommand(a *command.App) *cobra.Command {
	return &cobra.Command{
		Use:     "set KEY=VALUE...",
		Short:   "Set values of the file; an empty one removes the key",
		Example: "  cleat client config set namespace=backups cacert=/etc/ssl/store.pem",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, settings []string) error {
			c, err := command.ReadClientConfig()
			if err != nil {
				return err
			}
			for _, setting := range settings {
				key, value, found := strings.Cut(setting, "=")
				used, isKnown := known[key]
				switch {
				case !found:
					return fmt.Errorf("%q: want KEY=VALUE", setting)
				case !isKnown:
					return fmt.Errorf("%q is not a key of the client's configuration; there are %s", key,
						strings.Join(slices.Sorted(maps.Keys(known)), ", "))
				case value == "":
					delete(c.Values, key)
					continue
				case !used:
					fmt.Fprintf(a.Err, "%s is for Velero's client; cleat does not use it.\n", key)
				}
				if c.Values == nil {
					c.Values = map[string]any{}
				}
				c.Values[key] = value
			}
			return c.Write()
		},
	}
}
