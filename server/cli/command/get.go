package command

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cleat-dev/cleat/server/status/layout"
)

// getFlags are those of all "get" commands.
type GetFlags struct {
	output       string
	selector     string
	labelColumns []string
	showLabels   bool
}

func (f *GetFlags) Add(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.output, "output", "o", "table", "form of the output: table, json or yaml")
	cmd.Flags().StringVarP(&f.selector, "selector", "l", "", "only those whose labels match, e.g. a=b,c!=d")
	cmd.Flags().StringSliceVarP(&f.labelColumns, "label-columns", "L", nil, "labels to show in columns of their own")
	cmd.Flags().BoolVar(&f.showLabels, "show-labels", false, "show all labels in the last column")
}

// getter is what a "get" command is about. V is the kind, L its list.
type Getter[V any, L client.ObjectList] struct {
	NewList func() L
	Items   func(L) *[]V
	Sort    func([]V)
	Table   func([]V, time.Time) layout.Table
	Meta    func(*V) client.Object
	Retype  func(*V) // sets apiVersion and kind, which a client leaves out
}

// run gets the named objects, or all, and prints them.
func (g Getter[V, L]) Run(ctx context.Context, a *App, f GetFlags, names []string) error {
	s, err := a.Cluster.Connect()
	if err != nil {
		return err
	}
	list, err := g.List(ctx, s, f.selector, names)
	if err != nil {
		return err
	}
	return g.print(a, f, list, len(names) == 1)
}

// list gets the named objects, or all whose labels match.
func (g Getter[V, L]) List(ctx context.Context, s *Cluster, selector string, names []string) (list L, err error) {
	list = g.NewList()
	options := []client.ListOption{client.InNamespace(s.Namespace)}
	if selector != "" {
		parsed, err := labels.Parse(selector)
		if err != nil {
			return list, fmt.Errorf("--selector: %w", err)
		}
		options = append(options, client.MatchingLabelsSelector{Selector: parsed})
	}
	items := g.Items(list)
	if len(names) == 0 {
		if err := s.List(ctx, list, options...); err != nil {
			return list, err
		}
	}
	for _, name := range names {
		item := new(V)
		if err := s.Get(ctx, s.Key(name), g.Meta(item)); err != nil {
			return list, err
		}
		*items = append(*items, *item)
	}
	g.Sort(*items)
	for i := range *items {
		g.Retype(&(*items)[i])
	}
	return list, nil
}

// chosen are the objects that a command is about: those named, those selected, or all.
func (g Getter[V, L]) Chosen(ctx context.Context, s *Cluster, kinds string, c Selection, names []string) ([]V, error) {
	ways := 0
	for _, used := range []bool{len(names) > 0, c.selector != "", c.all} {
		if used {
			ways++
		}
	}
	if ways != 1 {
		return nil, fmt.Errorf("say which %s: their names, --selector or --all, one of them", kinds)
	}
	list, err := g.List(ctx, s, c.selector, names)
	if err != nil {
		return nil, err
	}
	return *g.Items(list), nil
}

// names are the names of objects, in one text.
func (g Getter[V, L]) Names(objects []V) string {
	var out []string
	for i := range objects {
		out = append(out, g.Meta(&objects[i]).GetName())
	}
	return strings.Join(out, ", ")
}

func (g Getter[V, L]) print(a *App, f GetFlags, list L, one bool) error {
	items := *g.Items(list)
	var value any = map[string]any{"apiVersion": "v1", "kind": "List", "items": items}
	if one {
		value = items[0]
	}
	switch f.output {
	case "json":
		return layout.PrintJSON(a.Out, value)
	case "yaml":
		return layout.PrintYAML(a.Out, value)
	case "table":
		t := g.Table(items, time.Now())
		var all []map[string]string
		for i := range items {
			all = append(all, g.Meta(&items[i]).GetLabels())
		}
		t.AddLabels(all, f.labelColumns, f.showLabels)
		return t.Print(a.Out)
	default:
		return fmt.Errorf("--output %q: want table, json or yaml", f.output)
	}
}

// choice are the flags that say which objects a command is about, unless they are named.
type Selection struct {
	all      bool
	selector string
}

func (c *Selection) Add(flags *pflag.FlagSet, verb, kinds string) {
	flags.BoolVar(&c.all, "all", false, verb+" all "+kinds)
	flags.StringVarP(&c.selector, "selector", "l", "", verb+" the "+kinds+" whose labels match")
}
