package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	frameworkmanifest "github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/cli/runs"
	"github.com/cleat-dev/cleat/server/cli/status/contents"
	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
	"github.com/cleat-dev/cleat/server/internal/console"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
)

// mostContent is the size up to which the content of an item is shown, in bytes.
const mostContent = 1 << 20

// contentDocument is the content of an item, as it is in the archive of the backup.
type contentDocument struct {
	inBackup
	Content json.RawMessage `json:"content,omitempty"`

	Item string `json:"-"`
	Href string `json:"-"` // of the page of the item
	Text string `json:"-"`
}

func itemContentPage() console.Page {
	return console.Page{Path: "/backups/{name}/item/content", Title: "Content of an item of backup {name}",
		Template: "item-content.html", Still: true, Document: func(ctx context.Context, l *console.Look) (any, error) {
			base, err := newInBackup(l, "BackupItemContent", "get", "item")
			if err != nil {
				return nil, err
			}
			doc := &contentDocument{inBackup: base}
			doc.Command = "cleat backup download " + doc.Backup
			var item *frameworkmanifest.Item
			err = doc.read(ctx, l, doc.Backup, func(m *contents.Manifest) (err error) {
				item, _, err = find(ctx, m, doc.asked)
				return err
			})
			if doc.Fetching {
				doc.Note = "Load this page again then."
			}
			if err != nil || item == nil {
				return doc, err
			}
			doc.Item, doc.Href = contents.NameOf(item.Ref()), itemLink(doc.Backup, item.Ref())
			if isSecret(item) {
				doc.Note = "The content of Secrets is not shown."
				return doc, nil
			}
			if err := mayGet(ctx, l, item); err != nil {
				return nil, err
			}
			return doc, doc.fill(ctx, l, item)
		}}
}

// mayGet asks the API server whether who looks may get the object that an item was made from.
func mayGet(ctx context.Context, l *console.Look, item *frameworkmanifest.Item) error {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Group: item.APIGroup, Version: item.APIVersion,
			Resource: item.Resource, Namespace: item.Namespace, Name: item.Name},
	}}
	name := contents.NameOf(item.Ref())
	if err := l.Create(ctx, review); err != nil {
		return fmt.Errorf("ask whether you may get %s: %w", name, err)
	}
	if !review.Status.Allowed {
		return apierrors.NewForbidden(schema.GroupResource{Group: item.APIGroup, Resource: item.Resource}, item.Name,
			fmt.Errorf("you may not get %s in the cluster, so its content in the backup is not shown", name))
	}
	return nil
}

// fill looks for the item in the archive of the backup.
func (d *contentDocument) fill(ctx context.Context, l *console.Look, item *frameworkmanifest.Item) (err error) {
	var b velerov1.Backup
	if err := get(ctx, clusterOf(l), "backup", d.Backup, &b); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, logWithin)
	defer cancel()
	file, err := runs.NewDownloads(answerWithin).File(ctx, clusterOf(l), runs.Target{
		Kind: velerov1.DownloadTargetKindBackupContents, Name: b.Name, Location: b.Spec.StorageLocation})
	if errors.Is(err, runs.ErrNoFile) {
		d.Note = "There is no archive of the backup in the object storage."
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	body, err := file.Open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }() // only read from
	content, err := archive.ReadObject(ctx, body, archive.Entry{
		GroupResource: schema.GroupResource{Group: item.APIGroup, Resource: item.Resource}, Namespace: item.Namespace,
		Name: item.Name}, mostContent)
	switch {
	case ctx.Err() != nil:
		d.Note = fmt.Sprintf("The archive is too large to find the item in it within %s.", logWithin)
	case err != nil:
		d.Problems = append(d.Problems, fmt.Sprintf("read the archive of %s: %s", d.Backup, layout.OneLine(err.Error())))
	case content == nil:
		d.Note = "The archive does not have the item."
	case !json.Valid(content):
		d.Problems = append(d.Problems, "the item in the archive is no JSON")
	default:
		d.Content = content
		text, err := yaml.JSONToYAML(content)
		if err != nil {
			return err
		}
		d.Text = layout.Printable(string(text))
	}
	return nil
}
