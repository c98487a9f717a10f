package cli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/cleat-dev/cleat/server/pluginreport"
)

// pluginOrder is what "plugin order -o json" prints.
type pluginOrder struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Order      []string       `json:"order,omitempty"` // as configured
	Items      []orderedEntry `json:"items"`
}

// orderedEntry is an action with its place among those of its stage, from 1.
type orderedEntry struct {
	Stage      string `json:"stage"`
	Place      int    `json:"place"`
	StockPlace int    `json:"stockPlace"` // if no order were configured
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	File       string `json:"file,omitempty"`
	BuiltIn    bool   `json:"builtIn,omitempty"`
	from       string
}

func (a *App) pluginOrderCommand() *cobra.Command {
	var f pluginFlags
	var output string
	cmd := &cobra.Command{
		Use:   "order",
		Short: "Show in which order actions run, and in which they would without plugins.order",
		Long: "Show in which order the actions of each stage run: of the running server, or with --plugin-dir of a directory, there\n" +
			"also for an order that is not configured yet. Without an order, built-ins come first, then files in the order of the\n" +
			"directory, and in a file what it lists. Asynchronous actions run after all others, by name.",
		Example: "  cleat plugin order\n  cleat plugin order --plugin-dir ./plugins --order 'example.io/first,*,example.io/last'",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(f.directory.order) > 0 && f.directory.path == "" {
				return errors.New("--order tries an order on a directory, so name it with --plugin-dir; a running server has that of its --config file")
			}
			report, err := f.report(cmd, a, "")
			if err != nil {
				return err
			}
			if slices.ContainsFunc(report.Plugins, func(p pluginreport.Plugin) bool { return p.Status == pluginreport.Unknown }) {
				return errors.New("this server does not tell the order of its plugins; look at its directory with --plugin-dir")
			}
			for _, name := range report.Order {
				if name != "*" && len(report.Only(name).Plugins) == 0 {
					fmt.Fprintf(a.Err, "The order names %s, which no plugin is called.\n", name)
				}
			}
			order := pluginOrder{apiVersion, "PluginOrder", report.Order, inOrder(report)}
			return a.print(output, []string{"table"}, order, func() error { return orderTable(order.Items).print(a.Out) })
		},
	}
	f.add(cmd)
	cmd.Flags().StringSliceVar(&f.directory.order, "order", nil, `names in the order to try; "*" stands for all others, without it they come last`)
	addOutput(cmd, &output, "table")
	return cmd
}

// inOrder are the actions in use by stages.
func inOrder(r *pluginreport.Report) []orderedEntry {
	all := []orderedEntry{}
	for _, stage := range pluginreport.Stages() {
		var actions []pluginreport.Plugin
		for _, kind := range stage.Kinds {
			for _, p := range r.Plugins {
				if p.Status == pluginreport.InUse && p.Kind == kind {
					actions = append(actions, p)
				}
			}
		}
		stock := slices.SortedFunc(slices.Values(actions), func(a, b pluginreport.Plugin) int { return cmp.Compare(a.Stock, b.Stock) })
		for i := range actions {
			p := &actions[i]
			at := slices.IndexFunc(stock, func(q pluginreport.Plugin) bool { return q.Stock == p.Stock })
			all = append(all, orderedEntry{
				Stage: stage.Name, Place: i + 1, StockPlace: at + 1, Kind: p.Kind, Name: p.Name, File: p.File, BuiltIn: p.BuiltIn, from: fromText(p),
			})
		}
	}
	return all
}

// orderTable is what "plugin order" prints.
func orderTable(items []orderedEntry) table {
	t := table{head: []string{"STAGE", "PLACE", "STOCK", "NAME", "KIND", "FROM"}}
	for _, item := range items {
		t.rows = append(t.rows, []string{
			item.Stage, strconv.Itoa(item.Place), strconv.Itoa(item.StockPlace), oneLine(item.Name), item.Kind, oneLine(item.from),
		})
	}
	return t
}
