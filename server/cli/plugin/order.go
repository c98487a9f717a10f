package plugin

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/status/pluginstatus"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
)

func newOrderCommand(a *command.App) *cobra.Command {
	var f pluginFlags
	var output string
	cmd := &cobra.Command{
		Use:   "order",
		Short: "Show in which order actions run, and in which they would run without plugins.order",
		Long: "Show in which order the actions of each stage run: of the running server, or with --plugin-dir of a " +
			"directory, there\n" +
			"also for an order that is not configured yet. Without an order, built-ins come first, then files in the order of " +
			"the\n" +
			"directory, and in a file what it lists. Asynchronous actions run after all others, by name.",
		Example: "  cleat plugin order\n  cleat plugin order --plugin-dir ./plugins --order " +
			"'example.io/first,*,example.io/last'",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(f.directory.Order) > 0 && f.directory.Path == "" {
				return errors.New("--order tries an order on a directory, so name it with --plugin-dir; a running server has " +
					"that of its --config file")
			}
			report, err := f.report(cmd, a, "")
			if err != nil {
				return err
			}
			if slices.ContainsFunc(report.Plugins,
				func(p serverreport.Plugin) bool { return p.Status == serverreport.Unknown }) {
				return errors.New("this server does not report the order of its plugins; inspect its directory with --plugin-dir")
			}
			for _, name := range report.Order {
				if name != "*" && len(report.Only(name).Plugins) == 0 {
					fmt.Fprintf(a.Err, "The order names %s, but there is no such plugin.\n", name)
				}
			}
			order := pluginstatus.NewOrder(report)
			return a.Print(output, []string{"table"}, order,
				func() error { return pluginstatus.OrderTable(order.Items).Print(a.Out) })
		},
	}
	f.add(cmd)
	cmd.Flags().StringSliceVar(&f.directory.Order, "order", nil,
		`names in the order to try; "*" stands for all others, without it they come last`)
	command.AddOutput(cmd, &output, "table")
	return cmd
}
