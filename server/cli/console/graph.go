package console

import (
	"bytes"
	"context"
	"fmt"
	"html/template"
	"strings"

	frameworkmanifest "github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/cli/status/contents"
	"github.com/cleat-dev/cleat/server/cli/status/drawing"
	"github.com/cleat-dev/cleat/server/internal/console"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
)

const (
	// mostBoxes is the number of items that a picture of a page shows.
	mostBoxes = 100
	// mostFound is the number of boxes with a text in their names that a page lists.
	mostFound = 20
)

// graphDocument is how items of a backup depend on each other: those around an item, or those that filters select.
type graphDocument struct {
	inBackup
	Item     string         `json:"item,omitempty"`
	Graph    *drawing.Graph `json:"graph,omitempty"`
	Selected int64          `json:"selected,omitempty"` // items that the filters select
	AtLeast  bool           `json:"atLeast,omitempty"`  // there are more
	Left     string         `json:"left,omitempty"`     // what is not shown, in words

	Picture   template.HTML `json:"-"`
	Find      string        `json:"-"`
	Found     []crumb       `json:"-"`
	FoundText string        `json:"-"`
	Depth     int           `json:"-"`
	Direction string        `json:"-"`
	ItemLink  string        `json:"-"`
}

func graphPage() console.Page {
	return console.Page{Path: "/backups/{name}/graph", Title: "Graph of backup {name}", Template: "graph.html",
		Document: func(ctx context.Context, l *console.Look) (any, error) {
			base, err := newInBackup(l, "BackupGraph", "graph", "item", "depth", "direction", "find")
			if err != nil {
				return nil, err
			}
			doc := &graphDocument{inBackup: base, Item: l.Value("item"), Find: l.Value("find")}
			if doc.Item != "" && doc.HasFilters() {
				return nil, console.Wrong{Text: "filters cannot be used together with an item"}
			}
			if doc.Item != "" {
				doc.Command += " " + layout.OneLine(doc.Item)
			}
			return doc, doc.read(ctx, l, doc.Backup, func(m *contents.Manifest) error { return doc.fill(ctx, m) })
		}}
}

func (d *graphDocument) fill(ctx context.Context, m *contents.Manifest) (err error) {
	d.Hidden = d.asked.others()
	if d.Item != "" {
		err = d.around(ctx, m)
	} else {
		err = d.selected(ctx, m)
	}
	if err != nil {
		return err
	}
	d.find()
	var picture bytes.Buffer
	if err := d.Graph.Fragment(&picture, d.linkOf); err != nil {
		return err
	}
	d.Picture = template.HTML(picture.String()) //nolint:gosec // the fragment escapes what is not its own
	return nil
}

// around draws what is around an item.
func (d *graphDocument) around(ctx context.Context, m *contents.Manifest) (err error) {
	if d.Depth, err = number(d.asked.values, "depth", 2, 1, 20); err != nil {
		return err
	}
	around := contents.Around{Needs: true, Referrers: true, Depth: d.Depth, Most: mostBoxes}
	switch d.Direction = d.asked.values.Get("direction"); d.Direction {
	case "", "both":
		d.Direction = "both"
	case "needs":
		around.Referrers = false
	case "referrers":
		around.Needs = false
	default:
		return console.Wrong{Text: fmt.Sprintf("direction=%q: want both, needs or referrers", d.Direction)}
	}
	item, _, err := find(ctx, m, d.asked)
	if err != nil {
		return err
	}
	d.ItemLink = itemLink(d.Backup, item.Ref())
	d.Graph, err = m.Around(ctx, item, around)
	return err
}

// selected draws the first items that the filters select.
func (d *graphDocument) selected(ctx context.Context, m *contents.Manifest) error {
	for _, name := range []string{"depth", "direction"} {
		if d.asked.values.Get(name) != "" {
			return console.Wrong{Text: name + " is for the graph around an item"}
		}
	}
	selection, err := d.asked.selection()
	if err != nil {
		return err
	}
	counted, err := m.Resources(ctx, selection, nil, contents.Page{Limit: 1})
	if err != nil {
		return err
	}
	d.Selected, d.AtLeast = counted.Items, counted.AtLeast
	if selection, err = d.asked.selection(); err != nil {
		return err
	}
	if d.Graph, err = m.Graph(ctx, selection, mostBoxes); err != nil {
		return err
	}
	if left := d.Selected - mostBoxes; left > 0 {
		d.Left = fmt.Sprintf("%d more are not shown: filters select fewer.", left)
		if d.AtLeast {
			d.Left = "At least " + d.Left
		}
	}
	return nil
}

// find marks the boxes with a text in their names.
func (d *graphDocument) find() {
	text, found := strings.ToLower(d.Find), 0
	if text == "" {
		return
	}
	for i := range d.Graph.Nodes {
		n := &d.Graph.Nodes[i]
		name := contents.NameOf(refOf(n))
		n.Asked = strings.Contains(strings.ToLower(name), text)
		if !n.Asked {
			continue
		}
		if found++; found <= mostFound {
			d.Found = append(d.Found, crumb{name, d.linkOf(n)})
		}
	}
	d.FoundText = fmt.Sprintf("%d of %s in the picture, with a thick border.", found,
		layout.Count(len(d.Graph.Nodes), "item"))
	if found > mostFound {
		d.FoundText += fmt.Sprintf(" The first %d are:", mostFound)
	}
}

func refOf(n *drawing.Node) frameworkmanifest.Ref {
	ref := frameworkmanifest.Ref{Namespace: n.Namespace, Name: n.Name, UID: n.UID}
	ref.Resource, ref.Group, _ = strings.Cut(n.Resource, ".")
	return ref
}

func (d *graphDocument) linkOf(n *drawing.Node) string {
	if n.Missing || n.Items > 0 {
		return ""
	}
	return itemLink(d.Backup, refOf(n))
}
