package console

import (
	"context"
	"strconv"
	"strings"

	frameworkmanifest "github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/cli/status/contents"
	"github.com/cleat-dev/cleat/server/internal/console"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
)

// contentsDocument is a branch of what is in a backup: the namespaces, the resources of one, or items.
type contentsDocument struct {
	inBackup
	Namespace *string        `json:"namespace,omitempty"` // whose resources are shown; empty for cluster-scoped items
	Resource  string         `json:"resource,omitempty"`  // whose items are shown: "deployments.apps"
	Tree      *contents.Tree `json:"tree,omitempty"`
	List      *contents.List `json:"list,omitempty"`

	Trail     []crumb `json:"-"` // the way to the branch
	Table     grid    `json:"-"`
	Next      string  `json:"-"`
	First     string  `json:"-"` // "" on the first page
	AsList    string  `json:"-"` // the same as a list of items
	Graph     string  `json:"-"`
	Different string  `json:"-"`
	Restore   string  `json:"-"` // the form that restores what is shown; "" if a restore cannot say it
	Count     string  `json:"-"` // in words
}

// crumb is a step of the way to a branch. The last one has no address.
type crumb struct{ Text, Href string }

func contentsPage() console.Page {
	return console.Page{Path: "/backups/{name}/contents", Title: "Contents of backup {name}", Template: "contents.html",
		Document: func(ctx context.Context, l *console.Look) (any, error) {
			base, err := newInBackup(l, "Contents", "ls", "namespace", "resource", "after", "list")
			if err != nil {
				return nil, err
			}
			doc := &contentsDocument{inBackup: base}
			return doc, doc.read(ctx, l, doc.Backup, func(m *contents.Manifest) error { return doc.fill(ctx, m) })
		}}
}

// fill reads the branch that is asked for.
func (d *contentsDocument) fill(ctx context.Context, m *contents.Manifest) error {
	q, here := d.asked, d.Back+"/contents"
	page := contents.Page{After: q.values.Get("after"), Limit: perPage}
	d.Hidden = q.others()
	d.Graph, d.Different = q.link(d.Back+"/graph"), q.link(d.Back+"/difference")
	d.Trail = []crumb{{"All", q.link(here)}}
	pairs := []string{}
	if q.values.Has("namespace") {
		namespace := q.values.Get("namespace")
		d.Namespace, pairs = &namespace, append(pairs, "namespace", namespace)
		d.Trail = append(d.Trail, crumb{inNamespace(namespace), q.link(here, pairs...)})
	}
	if d.Resource = q.values.Get("resource"); d.Resource != "" {
		pairs = append(pairs, "resource", d.Resource)
		d.Trail = append(d.Trail, crumb{d.Resource, ""})
	}
	d.Restore = restoreLink(d.Backup, q.kept, d.Namespace, d.Resource)
	listed := q.values.Get("list") != ""
	if listed {
		pairs = append(pairs, "list", "yes")
	} else if d.Resource == "" && d.Namespace == nil {
		d.AsList = q.link(here, "list", "yes")
	}
	for _, f := range pairsOf(pairs) {
		d.Hidden = append(d.Hidden, filter{Name: f[0], Value: f[1]})
	}
	d.Trail[len(d.Trail)-1].Href = ""
	selection, err := q.selection()
	if err != nil {
		return err
	}
	next := ""
	if listed || d.Resource != "" {
		next, err = d.fillList(ctx, m, selection, page)
	} else {
		next, err = d.fillTree(ctx, m, selection, page)
	}
	if err != nil {
		return err
	}
	if next != "" {
		d.Next = q.link(here, append(pairs, "after", next)...)
	}
	if page.After != "" {
		d.First = q.link(here, pairs...)
	}
	if d.Next == "" && d.First == "" {
		d.Problems = append(d.Problems, selection.Unknown()...)
	}
	return nil
}

func pairsOf(texts []string) (pairs [][2]string) {
	for i := 0; i < len(texts); i += 2 {
		pairs = append(pairs, [2]string{texts[i], texts[i+1]})
	}
	return pairs
}

func (d *contentsDocument) fillList(ctx context.Context, m *contents.Manifest, s *contents.Selection,
	page contents.Page,
) (next string, err error) {
	var within frameworkmanifest.Ref
	within.Resource, within.Group, _ = strings.Cut(d.Resource, ".")
	if d.Namespace != nil {
		within.Namespace = *d.Namespace
	}
	list, err := m.List(ctx, s, within, page)
	if err != nil {
		return "", err
	}
	d.List = list
	d.Table = grid{Caption: "Items", Empty: "There are none.", Head: []string{"NAME", "NAMESPACE", "RESOURCE", "VERSION"}}
	if list.Next != "" && len(list.Items) < perPage {
		d.Table.Empty = "None was found yet: the next page goes on."
	}
	for i, item := range list.Items {
		list.Items[i] = shown(item)
		ref := item.Ref()
		d.Table.Rows = append(d.Table.Rows, []gridCell{
			{Text: layout.OneLine(item.Name), Href: itemLink(d.Backup, ref), Heads: true},
			{Text: layout.OneLine(item.Namespace)}, {Text: layout.OneLine(contents.ResourceOf(ref))},
			{Text: layout.OneLine(item.APIVersion)}})
	}
	return list.Next, nil
}

func (d *contentsDocument) fillTree(ctx context.Context, m *contents.Manifest, s *contents.Selection,
	page contents.Page,
) (next string, err error) {
	q, here := d.asked, d.Back+"/contents"
	head := "NAMESPACE"
	if d.Namespace == nil {
		d.Tree, err = m.Namespaces(ctx, s, page)
	} else {
		head = "RESOURCE"
		d.Tree, err = m.Resources(ctx, s, d.Namespace, page)
	}
	if err != nil {
		return "", err
	}
	d.Count = layout.Count(int(d.Tree.Items), "item")
	if d.Tree.AtLeast {
		d.Count = "At least " + d.Count
	}
	d.Table = grid{Caption: strings.ToUpper(head[:1]) + strings.ToLower(head[1:]) + "s", Empty: "There are no items.",
		Head: []string{head, "ITEMS"}}
	for _, b := range d.Tree.Branches {
		text, link := inNamespace(b.Namespace), q.link(here, "namespace", b.Namespace)
		if d.Namespace != nil {
			text = contents.ResourceOf(frameworkmanifest.Ref{Group: b.Group, Resource: b.Resource})
			link = q.link(here, "namespace", *d.Namespace, "resource", text)
		}
		d.Table.Rows = append(d.Table.Rows, []gridCell{{Text: layout.OneLine(text), Href: link, Heads: true},
			{Text: strconv.FormatInt(b.Items, 10)}})
	}
	return d.Tree.Next, nil
}

// inNamespace names a branch of a tree.
func inNamespace(namespace string) string {
	if namespace == "" {
		return "cluster-scoped"
	}
	return namespace
}
