package cli

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
type getFlags struct {
	output       string
	selector     string
	labelColumns []string
	showLabels   bool
}

func (f *getFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.output, "output", "o", "table", "form of the output: table, json or yaml")
	cmd.Flags().StringVarP(&f.selector, "selector", "l", "", "only those whose labels match, e.g. a=b,c!=d")
	cmd.Flags().StringSliceVarP(&f.labelColumns, "label-columns", "L", nil, "labels to show in columns of their own")
	cmd.Flags().BoolVar(&f.showLabels, "show-labels", false, "show all labels in the last column")
}

// getter is what a "get" command is about. V is the kind, L its list.
type getter[V any, L client.ObjectList] struct {
	newList func() L
	items   func(L) *[]V
	sort    func([]V)
	table   func([]V, time.Time) layout.Table
	meta    func(*V) client.Object
	retype  func(*V) // sets apiVersion and kind, which a client leaves out
}

// run gets the named objects, or all, and prints them.
func (g getter[V, L]) run(ctx context.Context, a *App, f getFlags, names []string) error {
	s, err := a.cluster.connect()
	if err != nil {
		return err
	}
	list, err := g.list(ctx, s, f.selector, names)
	if err != nil {
		return err
	}
	return g.print(a, f, list, len(names) == 1)
}

// list gets the named objects, or all whose labels match.
func (g getter[V, L]) list(ctx context.Context, s *session, selector string, names []string) (list L, err error) {
	list = g.newList()
	options := []client.ListOption{client.InNamespace(s.namespace)}
	if selector != "" {
		parsed, err := labels.Parse(selector)
		if err != nil {
			return list, fmt.Errorf("--selector: %w", err)
		}
		options = append(options, client.MatchingLabelsSelector{Selector: parsed})
	}
	items := g.items(list)
	if len(names) == 0 {
		if err := s.List(ctx, list, options...); err != nil {
			return list, err
		}
	}
	for _, name := range names {
		item := new(V)
		if err := s.Get(ctx, s.key(name), g.meta(item)); err != nil {
			return list, err
		}
		*items = append(*items, *item)
	}
	g.sort(*items)
	for i := range *items {
		g.retype(&(*items)[i])
	}
	return list, nil
}

// chosen are the objects that a command is about: those named, those selected, or all.
func (g getter[V, L]) chosen(ctx context.Context, s *session, kinds string, c choice, names []string) ([]V, error) {
	ways := 0
	for _, used := range []bool{len(names) > 0, c.selector != "", c.all} {
		if used {
			ways++
		}
	}
	if ways != 1 {
		return nil, fmt.Errorf("say which %s: their names, --selector or --all, one of them", kinds)
	}
	list, err := g.list(ctx, s, c.selector, names)
	if err != nil {
		return nil, err
	}
	return *g.items(list), nil
}

// names are the names of objects, in one text.
func (g getter[V, L]) names(objects []V) string {
	var out []string
	for i := range objects {
		out = append(out, g.meta(&objects[i]).GetName())
	}
	return strings.Join(out, ", ")
}

func (g getter[V, L]) print(a *App, f getFlags, list L, one bool) error {
	items := *g.items(list)
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
		t := g.table(items, time.Now())
		var all []map[string]string
		for i := range items {
			all = append(all, g.meta(&items[i]).GetLabels())
		}
		t.AddLabels(all, f.labelColumns, f.showLabels)
		return t.Print(a.Out)
	default:
		return fmt.Errorf("--output %q: want table, json or yaml", f.output)
	}
}

// choice are the flags that say which objects a command is about, unless they are named.
type choice struct {
	all      bool
	selector string
}

func (c *choice) add(flags *pflag.FlagSet, verb, kinds string) {
	flags.BoolVar(&c.all, "all", false, verb+" all "+kinds)
	flags.StringVarP(&c.selector, "selector", "l", "", verb+" the "+kinds+" whose labels match")
}
