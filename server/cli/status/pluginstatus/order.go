package pluginstatus

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/cleat-dev/cleat/server/cli/status"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
)

// Order is the document of "plugin order".
type Order struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Order      []string        `json:"order,omitempty"` // as configured
	Items      []OrderedAction `json:"items"`
}

// OrderedAction is an action with its position among the actions of its stage, from 1.
type OrderedAction struct {
	Stage      string `json:"stage"`
	Place      int    `json:"place"`
	StockPlace int    `json:"stockPlace"` // without a configured order
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	File       string `json:"file,omitempty"`
	BuiltIn    bool   `json:"builtIn,omitempty"`
	from       string
}

// NewOrder returns the order of the actions that the server calls or would call.
func NewOrder(r *serverreport.PluginReport) Order {
	return Order{APIVersion: status.APIVersion, Kind: "PluginOrder", Order: r.Order, Items: inOrder(r)}
}

func inOrder(r *serverreport.PluginReport) []OrderedAction {
	all := []OrderedAction{}
	for _, stage := range serverreport.Stages() {
		var actions []serverreport.Plugin
		for _, kind := range stage.Kinds {
			for _, p := range r.Plugins {
				if p.Callable() && p.Kind == kind {
					actions = append(actions, p)
				}
			}
		}
		stock := slices.SortedFunc(slices.Values(actions),
			func(a, b serverreport.Plugin) int { return cmp.Compare(a.Stock, b.Stock) })
		for i := range actions {
			p := &actions[i]
			at := slices.IndexFunc(stock, func(q serverreport.Plugin) bool { return q.Stock == p.Stock })
			all = append(all, OrderedAction{
				Stage: stage.Name, Place: i + 1, StockPlace: at + 1, Kind: p.Kind, Name: p.Name, File: p.File, BuiltIn: p.BuiltIn,
				from: fromText(p),
			})
		}
	}
	return all
}

// OrderTable returns the table of "plugin order".
func OrderTable(items []OrderedAction) layout.Table {
	t := layout.Table{Head: []string{"STAGE", "PLACE", "STOCK", "NAME", "KIND", "FROM"}}
	for _, item := range items {
		t.Rows = append(t.Rows, []string{
			item.Stage, strconv.Itoa(item.Place), strconv.Itoa(item.StockPlace), layout.OneLine(item.Name), item.Kind,
			layout.OneLine(item.from),
		})
	}
	return t
}
