package restore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/runs"
	"github.com/cleat-dev/cleat/server/cli/status"
	"github.com/cleat-dev/cleat/server/internal/bucket/outcome"
	"github.com/cleat-dev/cleat/server/internal/kube/itemname"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
)

// askTimeout is how long to wait for the server by default.
const askTimeout = 30 * time.Second

func newExplainCommand(a *command.App) *cobra.Command {
	var output string
	var downloads runs.Downloads
	cmd := &cobra.Command{
		Use:   "explain NAME ITEM",
		Short: "Explain why an item was skipped, waits or failed",
		Long: "Explain what became of an item: its wave, what it waited for and how long, and why it was skipped, waits, " +
			"was left out\n" +
			"or failed. While the restore is at work, the server is asked, and afterwards its file in the object storage. An " +
			"item\n" +
			"is RESOURCE/NAMESPACE/NAME or RESOURCE/NAME, as one or two arguments.",
		Example: "  cleat restore explain nightly-20260102150405 deployments.apps/shop/web",
		Args:    cobra.RangeArgs(2, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := itemname.Parse(args[1:]...)
			if err != nil {
				return err
			}
			cluster, r, err := find(cmd.Context(), a, args[0])
			if err != nil {
				return err
			}
			e, err := explain(cmd.Context(), cluster, &downloads, r, name)
			if err != nil {
				return err
			}
			return a.Print(output, []string{"plaintext"}, e, func() error { return e.Print(a.Out) })
		},
	}
	command.AddOutput(cmd, &output, "plaintext")
	cmd.ValidArgsFunction = getter().Complete(a)
	downloads.Add(cmd.Flags(), askTimeout)
	return cmd
}

// explain finds out what became of an item: from the server while the restore is at work, else from its file.
func explain(
	ctx context.Context, cluster *command.Cluster, downloads *runs.Downloads, r *velerov1.Restore, name itemname.Name,
) (*status.RestoreExplanation, error) {
	var search search
	if isAtWork(r) {
		report, err := cluster.Restoring(ctx, downloads.Timeout(),
			serverreport.RestoreQuestion{Restore: r.Name, Item: name.String()})
		if err != nil {
			return nil, err
		}
		if report != nil {
			for _, item := range report.Items {
				search.add(item, name)
			}
			item, err := search.only(r, name)
			if item == nil && err == nil {
				err = fmt.Errorf("restore %s is at work and has no item %s so far", r.Name, name)
			}
			if err != nil {
				return nil, err
			}
			return &status.RestoreExplanation{Restore: r.Name, Live: true, Item: *item}, nil
		}
		if err := cluster.Get(ctx, cluster.Key(r.Name), r); err != nil { // it may have ended meanwhile
			return nil, err
		}
		if isAtWork(r) {
			return nil, fmt.Errorf("the server does not work on restore %s yet (phase %s); try again in a moment", r.Name,
				cmp.Or(string(r.Status.Phase), "New"))
		}
	}
	_, err := readItems(ctx, cluster, downloads, r, func(i outcome.Item) error {
		search.add(i, name)
		return nil
	})
	if err != nil {
		return nil, err
	}
	item, err := search.only(r, name)
	if err != nil {
		return nil, err
	}
	if item == nil {
		return nil, search.unknown(r, name)
	}
	e := &status.RestoreExplanation{Restore: r.Name, Item: *item}
	if len(item.Needs) == 0 {
		return e, nil
	}
	_, err = readItems(ctx, cluster, downloads, r, func(i outcome.Item) error {
		if slices.ContainsFunc(item.Needs, func(n outcome.Need) bool { return n.Ref == i.Source() }) {
			i.Needs = nil
			e.Needs = append(e.Needs, i)
		}
		return nil
	})
	return e, err
}

// search collects the items that a name may mean.
type search struct {
	found   []outcome.Item
	covers  *outcome.Item // all items among which it may be, which are left out
	similar []string
}

const maxSimilar = 5

func (s *search) add(i outcome.Item, name itemname.Name) {
	switch {
	case i.Matches(name):
		if len(s.found) <= maxSimilar {
			s.found = append(s.found, i)
		}
	case i.Covers(name):
		s.covers = &i
	case i.Name == name.Name && len(s.similar) < maxSimilar:
		s.similar = append(s.similar, i.Source().String())
	}
}

// only returns the only item of the name, or all items among which it may be, or nil.
func (s *search) only(r *velerov1.Restore, name itemname.Name) (*outcome.Item, error) {
	var names []string
	for i := range s.found {
		if name := s.found[i].Source().String(); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	switch {
	case len(names) > 1:
		return nil, fmt.Errorf("restore %s: several items have the name %s, say which: %s", r.Name, name,
			layout.Abbreviate(names, maxSimilar, ", "))
	case len(names) == 1:
		return &s.found[len(s.found)-1], nil // a namespace that is left out may have been created for other items
	}
	return s.covers, nil
}

func (s *search) unknown(r *velerov1.Restore, name itemname.Name) error {
	text := fmt.Sprintf("backup %s has no item %s", r.Spec.BackupName, name)
	if len(s.similar) > 0 {
		return fmt.Errorf("%s; items with the same name: %s", text, layout.Abbreviate(s.similar, maxSimilar, ", "))
	}
	return errors.New(text + "; \"cleat manifest ls " + r.Spec.BackupName + "\" lists its items")
}
