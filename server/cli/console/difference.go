package console

import (
	"context"
	"slices"
	"strings"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	frameworkmanifest "github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/cli/status"
	"github.com/cleat-dev/cleat/server/cli/status/contents"
	"github.com/cleat-dev/cleat/server/internal/console"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
)

// differenceDocument is in which items a backup differs from another one.
type differenceDocument struct {
	inBackup
	With    string            `json:"with"`
	Changes []contents.Change `json:"changes"` // from With to Backup
	After   string            `json:"next,omitempty"`

	Table       grid   `json:"-"`
	First, Next string `json:"-"`
	Others      string `json:"-"` // an address
	Swap        string `json:"-"`
}

// othersDocument is a page of the backups that one can be compared with.
type othersDocument struct {
	*list[*velerov1.Backup]
	With string `json:"-"` // none was chosen
	Back string `json:"-"`
	Grid grid   `json:"-"`
}

func differencePage() console.Page {
	return console.Page{Path: "/backups/{name}/difference", Title: "Difference of backup {name} to another",
		Template: "difference.html", Document: func(ctx context.Context, l *console.Look) (any, error) {
			if l.Value("with") == "" {
				return newOthers(ctx, l)
			}
			base, err := newInBackup(l, "BackupDifference", "diff", "with", "after")
			if err != nil {
				return nil, err
			}
			doc := &differenceDocument{inBackup: base, With: l.Value("with"), Changes: []contents.Change{}}
			doc.Command = "cleat manifest diff " + layout.OneLine(doc.With) + " " + doc.Backup
			if doc.With == doc.Backup {
				return nil, console.Wrong{Text: "a backup does not differ from itself: choose another one"}
			}
			return doc, doc.read(ctx, l, doc.Backup, func(after *contents.Manifest) error {
				return doc.read(ctx, l, doc.With, func(before *contents.Manifest) error {
					return doc.fill(ctx, before, after)
				})
			})
		}}
}

// newOthers returns the backups that one can be compared with, the newest first.
func newOthers(ctx context.Context, l *console.Look) (*othersDocument, error) {
	name := l.Request.PathValue("name")
	if err := get(ctx, clusterOf(l), "backup", name, &velerov1.Backup{}); err != nil {
		return nil, err
	}
	backups, err := console.List[*velerov1.Backup](l, backupKind)
	backups = slices.DeleteFunc(backups, func(b *velerov1.Backup) bool {
		return b.Name == name || !status.BackupRun(b).HasLog()
	})
	slices.SortFunc(backups, func(a, b *velerov1.Backup) int {
		return b.CreationTimestamp.Compare(a.CreationTimestamp.Time)
	})
	found, err := newList(l, backups, func(b *velerov1.Backup) string { return status.BackupRun(b).Phase }, err)
	if err != nil {
		return nil, err
	}
	doc := &othersDocument{list: found, Back: pathOf("backups", name)}
	doc.Grid = grid{Caption: "Backups to compare with", Empty: "There is no other backup.",
		Head: []string{"NAME", "STATUS", "COMPLETED"}}
	for _, b := range found.Items {
		phase := status.BackupRun(b).Phase
		doc.Grid.Rows = append(doc.Grid.Rows, []gridCell{
			{Text: b.Name, Href: query{}.link(doc.Back+"/difference", "with", b.Name), Heads: true}, {Text: phase},
			{Text: layout.TimeOr(b.Status.CompletionTimestamp, "never")}})
	}
	return doc, nil
}

func (d *differenceDocument) fill(ctx context.Context, before, after *contents.Manifest) error {
	q, here := d.asked, d.Back+"/difference"
	d.Hidden = append(q.others(), filter{Name: "with", Value: d.With})
	d.Others, d.Swap = here, q.link(pathOf("backups", d.With)+"/difference", "with", d.Backup)
	page := contents.Page{After: q.values.Get("after"), Limit: perPage}
	found, err := contents.Diff(ctx, before, after, q.filters, page)
	if err != nil {
		return err
	}
	d.Changes, d.After = found.Changes, found.Next
	d.Table = grid{Caption: "Changes from " + d.With + " to " + d.Backup, Empty: "They do not differ.",
		Head: []string{"ITEM", "CHANGE", "WHAT"}}
	if found.Next != "" {
		d.Table.Empty = "No difference was found yet: the next page goes on."
		d.Next = q.link(here, "with", d.With, "after", found.Next)
	}
	if page.After != "" {
		d.First = q.link(here, "with", d.With)
		d.Table.Empty = "They do not differ any further."
	}
	for i := range d.Changes {
		c := &d.Changes[i]
		c.Before, c.After = shown(c.Before), shown(c.After)
		d.Table.Rows = append(d.Table.Rows, d.row(c))
	}
	return nil
}

func (d *differenceDocument) row(c *contents.Change) []gridCell {
	item, in, text := c.After, d.Backup, "changed"
	switch c.Change {
	case frameworkmanifest.Added:
		text = "only in " + d.Backup
	case frameworkmanifest.Gone:
		item, in, text = c.Before, d.With, "only in "+d.With
	}
	what := strings.Join(c.Fields, ", ")
	if slices.Contains(c.Fields, "uid") {
		what = "created anew: " + what
	}
	return []gridCell{{Text: contents.NameOf(item.Ref()), Href: itemLink(in, item.Ref()), Heads: true},
		{Text: text}, {Text: layout.OneLine(what)}}
}
