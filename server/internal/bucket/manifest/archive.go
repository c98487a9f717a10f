package manifest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
	"github.com/cleat-dev/cleat/server/internal/bucket/reference"
	"github.com/cleat-dev/cleat/server/internal/kube/item"
)

// FromArchive writes the manifest of a backup from its archive, which may come from Velero, or from anywhere. It
// streams the archive in. Its memory is bounded by options and the size of one object. The manifest has each object in
// each version of the archive; if the archive has an entry twice, the last one counts. The manifest lacks the edges of
// actions, and how the objects came into the backup.
//
// header names the backup and the format of its archive. The annotations that it names are left out; nil stands for
// manifest.OmittedByDefault. After an error, the output is not a manifest.
func FromArchive(
	ctx context.Context, r io.Reader, header manifest.Header, table *reference.Table, w io.Writer,
	options manifest.Options,
) error {
	if header.OmittedAnnotations == nil {
		header.OmittedAnnotations = manifest.OmittedByDefault()
	}
	out, err := manifest.NewWriter(w, header, options)
	if err != nil {
		return err
	}
	defer out.Abort()
	if err := archive.Walk(ctx, r, archive.DefaultLimits(), func(o archive.Object) error {
		made, err := archived(o, table)
		if err != nil {
			return err
		}
		header.Omit(made)
		return out.Add(made)
	}); err != nil {
		return fmt.Errorf("make a manifest from the archive of backup %s: %w", header.Backup.Name, err)
	}
	return out.Close()
}

// OfArchive yields the objects of an unpacked archive for which wanted returns true, as FromArchive describes them. It
// leaves out those that are no objects.
func OfArchive(
	contents *archive.Archive, wanted func(archive.Entry) bool, table *reference.Table,
) iter.Seq2[*manifest.Item, error] {
	return func(yield func(*manifest.Item, error) bool) {
		for _, gr := range contents.Resources() {
			for entry := range contents.Items(gr) {
				if !wanted(entry) {
					continue
				}
				raw, err := contents.Read(entry)
				if err != nil {
					yield(nil, err)
					return
				}
				meta, err := item.ParseMeta(raw)
				if err != nil {
					continue
				}
				version := meta.APIVersion[strings.LastIndex(meta.APIVersion, "/")+1:]
				made, _ := document(gr.WithVersion(version), raw, meta, table) // too many references
				if !yield(made, nil) {
					return
				}
			}
		}
	}
}

func archived(o archive.Object, table *reference.Table) (*manifest.Item, error) {
	of, meta, err := identify(o)
	if err != nil {
		return nil, err
	}
	return document(of, o.JSON, meta, table)
}

// identify returns the resource and the metadata of an object of an archive.
func identify(o archive.Object) (of schema.GroupVersionResource, meta item.Meta, err error) {
	meta, err = item.ParseMeta(o.JSON)
	if err == nil && (meta.Kind == "" || meta.APIVersion == "") {
		err = errors.New("the object has no kind or apiVersion")
	}
	if err == nil {
		err = o.Check(meta)
	}
	if err != nil {
		return of, meta, err
	}
	version := o.Version
	if version == "" {
		version = meta.APIVersion[strings.LastIndex(meta.APIVersion, "/")+1:]
	}
	return o.GroupResource.WithVersion(version), meta, nil
}
