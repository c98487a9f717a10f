package plugin

import (
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/status"
	"github.com/cleat-dev/cleat/server/cli/status/pluginstatus"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
)

func newGetCommand(a *command.App) *cobra.Command {
	var f pluginFlags
	var kind, output string
	forms := []string{"table", "wide"}
	cmd := &cobra.Command{
		Use:     "get [NAME...]",
		Aliases: []string{"list"},
		Short:   "List plugins, and why some are quarantined",
		Long: "List the plugins of the running server, or with --plugin-dir those of a directory.\n" +
			"A NAME is the name of a plugin, or the path of a plugin file.",
		Example: "  cleat plugin get\n  cleat plugin get --kind BackupItemAction -o wide\n  cleat plugin get --plugin-dir " +
			"./plugins -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			report, err := f.report(cmd, a, "")
			if err != nil {
				return err
			}
			plugins, err := pluginstatus.Select(report, args, kind)
			if err != nil {
				return err
			}
			slices.SortStableFunc(plugins, pluginstatus.CompareForList)
			list := pluginstatus.NewList(report, plugins)
			if f.policies != nil && len(args) == 0 && kind == "" {
				list.Policies = f.policies.Policies
			}
			return a.Print(output, forms, list, func() error {
				if err := pluginstatus.Table(plugins, output == "wide").Print(a.Out); err != nil {
					return err
				}
				d := layout.NewDescription(a.Out)
				pluginstatus.PrintQuarantined(d, plugins)
				if len(list.Policies) == 0 || d.Err() != nil {
					return d.Err()
				}
				d.Gap()
				return status.PolicyTable(list.Policies, time.Now()).Print(a.Out)
			})
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&kind, "kind", "", "only plugins of this kind, e.g. ObjectStore; with its version, only of "+
		"that: BackupItemActionV2")
	command.AddOutput(cmd, &output, forms...)
	return cmd
}
