package console

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"

	frameworkmanifest "github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/cli/status/contents"
	"github.com/cleat-dev/cleat/server/internal/console"
	"github.com/cleat-dev/cleat/server/internal/kube/itemname"
	"github.com/cleat-dev/cleat/server/internal/kube/shorten"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
)

// longestValue is the number of bytes that are shown of a label or annotation.
const longestValue = 1 << 10

// itemDocument is an item of a backup: what it depends on, what depends on it, and how it came into the backup.
type itemDocument struct {
	inBackup
	Item      *frameworkmanifest.Item `json:"item,omitempty"`      // its edges are those of the page
	Edges     int                     `json:"edges"`               // the number of all
	Chain     []contents.Step         `json:"chain,omitempty"`     // as of "manifest why"
	Referrers []contents.Referrer     `json:"referrers,omitempty"` // those of the page
	Next      string                  `json:"next,omitempty"`      // for the next page of Referrers

	Name, Version       string      `json:"-"`
	Labels, Annotations [][2]string `json:"-"`
	Why                 []reason    `json:"-"`
	Needs, NeededBy     grid        `json:"-"`
	MoreNeeds           string      `json:"-"` // an address
	MoreReferrers       string      `json:"-"`
	Graph, InTree       string      `json:"-"`
	Content             string      `json:"-"` // an address; "" for a Secret
	Restore             string      `json:"-"` // the form that restores it
}

// reason is how an item came into a backup.
type reason struct{ Item, Href, Because string }

func itemPage() console.Page {
	return console.Page{Path: "/backups/{name}/item", Title: "Item of backup {name}", Template: "item.html",
		Document: func(ctx context.Context, l *console.Look) (any, error) {
			base, err := newInBackup(l, "BackupItem", "get", "item", "after", "from")
			if err != nil {
				return nil, err
			}
			doc := &itemDocument{inBackup: base}
			doc.Command += " " + layout.OneLine(l.Value("item")) + " --referrers"
			return doc, doc.read(ctx, l, doc.Backup, func(m *contents.Manifest) error { return doc.fill(ctx, m) })
		}}
}

// find returns the item that a request names.
func find(ctx context.Context, m *contents.Manifest, q query) (*frameworkmanifest.Item, itemname.Name, error) {
	name, err := itemname.Parse(q.values.Get("item"))
	if err != nil {
		return nil, name, console.Wrong{Text: err.Error()}
	}
	item, err := m.Find(ctx, name)
	return item, name, err
}

func (d *itemDocument) fill(ctx context.Context, m *contents.Manifest) error {
	item, name, err := find(ctx, m, d.asked)
	if err != nil {
		return err
	}
	from, err := number(d.asked.values, "from", 1, 1, len(item.Edges)+1)
	if err != nil {
		return err
	}
	why, err := m.Why(ctx, name, contents.Page{After: d.asked.values.Get("after"), Limit: perPage})
	if err != nil {
		return err
	}
	ref := item.Ref()
	copied := *shown(item)
	copied.Edges = item.Edges[from-1 : min(from-1+perPage, len(item.Edges))]
	d.Item, d.Edges, d.Chain, d.Referrers, d.Next = &copied, len(item.Edges), why.Chain, why.Referrers, why.Next
	d.Name = contents.NameOf(ref)
	d.Version = layout.OneLine(item.ItemKind + ", " + item.APIVersion)
	if item.APIGroup != "" {
		d.Version = layout.OneLine(item.ItemKind + ", " + item.APIGroup + "/" + item.APIVersion)
	}
	d.Labels, d.Annotations = sorted(copied.Labels), sorted(copied.Annotations)
	for i := range why.Chain {
		step := &why.Chain[i]
		r := reason{Item: contents.NameOf(step.Item), Because: layout.OneLine(step.Sentence())}
		if step.Ends != "it is not in the backup" && i > 0 {
			r.Href = itemLink(d.Backup, step.Item)
		}
		d.Why = append(d.Why, r)
	}
	d.Needs = d.edges("What it depends on", len(copied.Edges),
		func(i int) (frameworkmanifest.Edge, frameworkmanifest.Ref) {
			return copied.Edges[i], copied.Edges[i].To
		})
	d.NeededBy = d.edges("What depends on it", len(why.Referrers),
		func(i int) (frameworkmanifest.Edge, frameworkmanifest.Ref) {
			return why.Referrers[i].Edge, why.Referrers[i].Item
		})
	here := url.Values{"item": {itemOf(ref)}}
	more := func(key, value string) string {
		return d.Back + "/item?" + url.Values{"item": here["item"], key: {value}}.Encode()
	}
	if next := from + perPage; next <= len(item.Edges) {
		d.MoreNeeds = more("from", strconv.Itoa(next))
	}
	if why.Next != "" {
		d.MoreReferrers = more("after", why.Next)
	}
	d.Graph, d.Restore = d.Back+"/graph?"+here.Encode(), restoreItemLink(d.Backup, item)
	if !isSecret(item) {
		d.Content = d.Back + "/item/content?" + here.Encode()
	}
	d.InTree = d.Back + "/contents?" + url.Values{"namespace": {item.Namespace},
		"resource": {contents.ResourceOf(ref)}}.Encode()
	return nil
}

// edges returns a table of dependencies, with the items at their other ends.
func (d *itemDocument) edges(
	caption string, n int, edge func(int) (frameworkmanifest.Edge, frameworkmanifest.Ref),
) grid {
	table := grid{Caption: caption, Empty: "Nothing.", Head: []string{"ITEM", "STRENGTH", "TYPE", "FOUND IN"}}
	for i := range n {
		e, other := edge(i)
		strength, found := "soft", e.Path
		if e.Strict {
			strength = "strict"
		}
		if e.Plugin != "" {
			found = "requested by " + e.Plugin
		}
		table.Rows = append(table.Rows, []gridCell{
			{Text: contents.NameOf(other), Href: itemLink(d.Backup, other), Heads: true},
			{Text: strength}, {Text: layout.OneLine(string(e.Type))}, {Text: layout.OneLine(found)}})
	}
	return table
}

// sorted returns labels or annotations as they are shown.
func sorted(values map[string]string) (pairs [][2]string) {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		pairs = append(pairs, [2]string{layout.OneLine(key),
			cmp.Or(layout.Printable(shorten.Text(values[key], longestValue)), "\"\"")})
	}
	return pairs
}

// number returns a parameter that is a number, from least to most.
func number(values url.Values, name string, without, least, most int) (int, error) {
	text := values.Get(name)
	if text == "" {
		return without, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, console.Wrong{Text: fmt.Sprintf("%s=%q: want a number from %d to %d", name, text, least, most)}
	}
	return n, nil
}
