package console

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	frameworkmanifest "github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/cli/manifest"
	"github.com/cleat-dev/cleat/server/cli/runs"
	"github.com/cleat-dev/cleat/server/cli/status"
	"github.com/cleat-dev/cleat/server/cli/status/contents"
	"github.com/cleat-dev/cleat/server/internal/console"
	"github.com/cleat-dev/cleat/server/internal/kube/itemname"
)

// mostManifest is what the temporary files of one manifest may have, in bytes: enough for some million items.
const mostManifest = 512 << 20

// lookAgain is how often an open page is made again, to find out whether the viewer may still see it: a manifest does
// not change.
const lookAgain = time.Minute

// inBackup is what the documents of all pages have that show what is in a backup.
type inBackup struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Backup     string   `json:"backup"`
	Fetching   bool     `json:"fetching,omitempty"` // the manifest is still being fetched
	Note       string   `json:"note,omitempty"`     // why there is nothing
	Problems   []string `json:"problems,omitempty"`
	asked      query

	Back    string   `json:"-"`
	Command string   `json:"-"`
	Filters []filter `json:"-"` // the fields of the form
	Hidden  []filter `json:"-"` // what the form keeps
}

// newInBackup returns the document of a page, with what the request asks for. The page knows the parameters of filters,
// and others.
func newInBackup(l *console.Look, kind, verb string, others ...string) (inBackup, error) {
	name := l.Request.PathValue("name")
	doc := inBackup{APIVersion: status.APIVersion, Kind: kind, Backup: name, Back: pathOf("backups", name),
		Command: "cleat manifest " + verb + " " + name}
	var err error
	if doc.asked, err = newQuery(l.Request.URL.Query(), others...); err != nil {
		return doc, err
	}
	doc.Filters = doc.asked.fields()
	return doc, nil
}

// HasFilters reports whether the request has filters.
func (d *inBackup) HasFilters() bool { return !d.asked.filters.Everything() }

// read passes the manifest of a backup to use, with the rights of who looks. If there is none, the document says why.
func (d *inBackup) read(ctx context.Context, l *console.Look, name string, use func(*contents.Manifest) error) error {
	cluster, key := clusterOf(l), "manifest of "+name
	console.Watch(l, backupKind)
	b := &velerov1.Backup{}
	if err := get(ctx, cluster, "backup", name, b); err != nil {
		if errors.As(err, new(console.Missing)) || apierrors.IsForbidden(err) {
			console.Drop(l, key)
		}
		return err
	}
	if run := status.BackupRun(b); !run.HasLog() {
		d.Note = "The manifest of " + name + " is stored when the backup has ended; the phase is " + run.Phase + "."
		return nil
	}
	// the file has been fetched once, but who looks must still be allowed to
	if err := l.May(ctx, "create", group, "downloadrequests", ""); err != nil {
		if errors.As(err, new(console.Refusal)) {
			console.Drop(l, key)
			return fmt.Errorf("%w, with which the console fetches what is in a backup", err)
		}
		return err
	}
	m, release, err := console.Hold(l, key, string(b.UID), func(ctx context.Context) (*manifest.Source, error) {
		return manifest.Fetch(ctx, cluster, runs.NewDownloads(answerWithin), b, mostManifest)
	})
	switch {
	case errors.Is(err, console.ErrOpening):
		d.Fetching = true
		return nil
	case errors.Is(err, manifest.ErrNone):
		d.Note = "The backup " + name + " has no manifest: a server that writes none has made it, or it has failed before " +
			"there was one. \"cleat manifest ls " + name + "\" makes one from its archive."
		return nil
	case err != nil:
		d.Problems = append(d.Problems, err.Error())
		return nil
	}
	defer release()
	l.Again(lookAgain)
	return asError(use(m.Manifest))
}

// asError returns an error about a request as one of a page.
func asError(err error) error {
	switch {
	case errors.As(err, new(contents.NoItem)):
		return console.Missing{Text: err.Error()}
	case errors.As(err, new(contents.WrongPage)):
		return console.Wrong{Text: err.Error()}
	default:
		return err
	}
}

// query is what a request asks for: the filters of "manifest ls", as parameters with the names of its flags, and
// others.
type query struct {
	filters contents.Filters
	kept    url.Values // the parameters of the filters
	values  url.Values // all
}

func newQuery(values url.Values, others ...string) (q query, err error) {
	flags := pflag.NewFlagSet("filters", pflag.ContinueOnError)
	var filters manifest.FilterFlags
	filters.Add(flags)
	q = query{kept: url.Values{}, values: values}
	for name, texts := range values {
		texts = slices.DeleteFunc(slices.Clone(texts), func(text string) bool { return text == "" })
		if slices.Contains(others, name) {
			continue
		}
		flag := flags.Lookup(name)
		if flag == nil {
			return q, console.Wrong{Text: "this page knows no parameter " + name}
		}
		if len(texts) > 1 && flag.Value.Type() != "stringSlice" {
			return q, console.Wrong{Text: "the parameter " + name + " can be given once"}
		}
		for _, text := range texts {
			if err := flags.Set(name, text); err != nil {
				return q, console.Wrong{Text: name + "=" + text + ": " + err.Error()}
			}
			q.kept.Add(name, text)
		}
	}
	if q.filters, err = filters.Filters(); err == nil {
		_, err = q.selection()
	}
	if err != nil {
		return q, console.Wrong{Text: err.Error()}
	}
	return q, nil
}

// selection returns what the filters select, for one reading of one manifest.
func (q query) selection() (*contents.Selection, error) { return contents.NewSelection(q.filters) }

// link returns the address of a page with the filters, and with more parameters: pairs of a name and a text.
func (q query) link(path string, pairs ...string) string {
	values := url.Values{}
	for name, texts := range q.kept {
		values[name] = texts
	}
	for i := 0; i < len(pairs); i += 2 {
		values.Set(pairs[i], pairs[i+1])
	}
	if len(values) == 0 {
		return path
	}
	return path + "?" + values.Encode()
}

// filter is a field of a form.
type filter struct{ Name, Label, Value string }

// fields are the fields of the form of filters.
func (q query) fields() []filter {
	fields := []filter{{Name: "search", Label: "Name"}, {Name: "selector", Label: "Labels"},
		{Name: "include-resources", Label: "Resources"}, {Name: "include-namespaces", Label: "Namespaces"}}
	for i := range fields {
		fields[i].Value = strings.Join(q.kept[fields[i].Name], ",")
	}
	return fields
}

// others are the parameters of filters that have no field.
func (q query) others() (hidden []filter) {
	for name, texts := range q.kept {
		if !slices.ContainsFunc(q.fields(), func(f filter) bool { return f.Name == name }) {
			for _, text := range texts {
				hidden = append(hidden, filter{Name: name, Value: text})
			}
		}
	}
	slices.SortFunc(hidden, func(a, b filter) int { return strings.Compare(a.Name+a.Value, b.Name+b.Value) })
	return hidden
}

// itemOf returns the parameter "item" of an item. It has a namespace, if only an empty one, so that it means one item.
func itemOf(ref frameworkmanifest.Ref) string {
	return itemname.Name{Resource: contents.ResourceOf(ref), Namespace: ref.Namespace, Name: ref.Name}.String()
}

// itemLink returns the address of the page of an item; "" if it is not known well enough.
func itemLink(backup string, ref frameworkmanifest.Ref) string {
	if ref.Name == "" || ref.Resource == "" && ref.Kind == "" {
		return ""
	}
	return pathOf("backups", backup) + "/item?" + url.Values{"item": {itemOf(ref)}}.Encode()
}

// shown returns an item as pages show it: of a Secret, the annotations have no values, because they can have parts of
// its content.
func shown(item *frameworkmanifest.Item) *frameworkmanifest.Item {
	if item == nil || !isSecret(item) {
		return item
	}
	copied := *item
	copied.Annotations = map[string]string{}
	for key := range item.Annotations {
		copied.Annotations[key] = "<hidden>"
	}
	return &copied
}

func isSecret(item *frameworkmanifest.Item) bool {
	return item.APIGroup == "" && item.Resource == "secrets"
}

// grid is a table in which any cell can have a link. It has what the template "table" wants.
type grid struct {
	Caption, Empty string
	Head           []string
	Rows           [][]gridCell
}

type gridCell struct {
	Text, Href, Mood string
	Heads            bool
}
