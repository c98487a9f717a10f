package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
)

// Getter lists the objects of one kind and prints them. V is the kind, L its list.
type Getter[V any, P interface {
	*V
	client.Object
}, L client.ObjectList] struct {
	Kind    string // "Backup"
	NewList func() L
	Items   func(L) *[]V
	Sort    func([]V) // nil to sort by name
	Table   func([]V, time.Time) layout.Table
	// Is, unless nil, has the flag IsFlag restrict the list to the objects for which it returns true.
	Is             func(*V) bool
	IsFlag, IsHelp string
}

// NewGetCommand returns the command that lists the objects of a Getter. kinds is their kind in the plural, for people.
func NewGetCommand[V any, P interface {
	*V
	client.Object
}, L client.ObjectList](a *App, kinds string, g Getter[V, P, L]) *cobra.Command {
	var f getFlags
	cmd := &cobra.Command{
		Use:     "get [NAME...]",
		Aliases: []string{"list"},
		Short:   "List " + kinds,
		RunE: func(cmd *cobra.Command, args []string) error {
			cluster, err := a.Cluster.Connect()
			if err != nil {
				return err
			}
			list, err := g.List(cmd.Context(), cluster, f.selector, args)
			items := g.Items(list)
			if err != nil && len(*items) == 0 {
				return err
			}
			if f.is {
				*items = slices.DeleteFunc(*items, func(v V) bool { return !g.Is(&v) })
			}
			return errors.Join(g.print(a, f, list, len(args) == 1 && !f.is), err)
		},
	}
	f.add(cmd)
	if g.Is != nil {
		cmd.Flags().BoolVar(&f.is, g.IsFlag, false, g.IsHelp)
	}
	cmd.ValidArgsFunction = g.Complete(a)
	return cmd
}

// getFlags are the flags of all "get" commands.
type getFlags struct {
	output       string
	selector     string
	labelColumns []string
	showLabels   bool
	is           bool
}

func (f *getFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.output, "output", "o", "table", "form of the output: table, json or yaml")
	AddSelector(cmd.Flags(), &f.selector, "only those whose labels match, e.g. a=b,c!=d")
	cmd.Flags().StringSliceVarP(&f.labelColumns, "label-columns", "L", nil, "labels to show in columns of their own")
	cmd.Flags().BoolVar(&f.showLabels, "show-labels", false, "show all labels in the last column")
}

// List returns the named objects, or without names all whose labels match. If some of the named objects do not exist,
// it returns the others and an error.
func (g Getter[V, P, L]) List(
	ctx context.Context, cluster *Cluster, selector string, names []string,
) (list L, err error) {
	list = g.NewList()
	options := []client.ListOption{client.InNamespace(cluster.Namespace)}
	if selector != "" {
		if len(names) > 0 {
			return list, errors.New("--selector chooses among all: leave out the names")
		}
		parsed, err := labels.Parse(selector)
		if err != nil {
			return list, fmt.Errorf("--selector: %w", err)
		}
		options = append(options, client.MatchingLabelsSelector{Selector: parsed})
	}
	items := g.Items(list)
	if len(names) == 0 {
		if err := cluster.List(ctx, list, options...); err != nil {
			return list, err
		}
	}
	var missing []error
	for _, name := range names {
		item := new(V)
		err := cluster.Get(ctx, cluster.Key(name), P(item))
		switch {
		case apierrors.IsNotFound(err):
			missing = append(missing, err)
		case err != nil:
			return list, err
		default:
			*items = append(*items, *item)
		}
	}
	if g.Sort != nil {
		g.Sort(*items)
	} else {
		slices.SortFunc(*items, func(a, b V) int { return cmp.Compare(P(&a).GetName(), P(&b).GetName()) })
	}
	for i := range *items {
		g.SetKind(&(*items)[i])
	}
	return list, errors.Join(missing...)
}

// SetKind sets apiVersion and kind, which a client leaves empty.
func (g Getter[V, P, L]) SetKind(object P) {
	object.GetObjectKind().SetGroupVersionKind(velerov1.SchemeGroupVersion.WithKind(g.Kind))
}

// Selection holds the flags that select the objects of a command, unless they are named.
type Selection struct {
	all      bool
	selector string
}

// Add adds the flags of a command that applies verb to objects.
func (s *Selection) Add(flags *pflag.FlagSet, verb, kinds string) {
	flags.BoolVar(&s.all, "all", false, verb+" all "+kinds)
	AddSelector(flags, &s.selector, verb+" the "+kinds+" whose labels match")
}

// Select returns the objects that a command applies to: those named, those selected, or all.
func (g Getter[V, P, L]) Select(
	ctx context.Context, cluster *Cluster, kinds string, s Selection, names []string,
) ([]V, error) {
	ways := 0
	for _, used := range []bool{len(names) > 0, s.selector != "", s.all} {
		if used {
			ways++
		}
	}
	if ways != 1 {
		return nil, fmt.Errorf("say which %s: their names, --selector or --all, one of them", kinds)
	}
	list, err := g.List(ctx, cluster, s.selector, names)
	if err != nil {
		return nil, err
	}
	return *g.Items(list), nil
}

// Names returns the names of objects, separated by commas.
func (g Getter[V, P, L]) Names(objects []V) string {
	var out []string
	for i := range objects {
		out = append(out, P(&objects[i]).GetName())
	}
	return strings.Join(out, ", ")
}

func (g Getter[V, P, L]) print(a *App, f getFlags, list L, one bool) error {
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
			all = append(all, P(&items[i]).GetLabels())
		}
		t.AddLabels(all, f.labelColumns, f.showLabels)
		return t.Print(a.Out)
	default:
		return fmt.Errorf("--output %q: want table, json or yaml", f.output)
	}
}
