package restores

import (
	"errors"
	"fmt"
	"iter"

	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
	bucketmanifest "github.com/cleat-dev/cleat/server/internal/bucket/manifest"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
)

// graph returns the dependencies of the objects of the backup: those of its manifest or, if it has none that can be
// read, those that the objects in its archive name.
func (w *work) graph(
	objects *store.Store, contents *archive.Archive,
) func(wanted func(archive.Entry) bool) iter.Seq2[*manifest.Item, error] {
	return func(wanted func(archive.Entry) bool) iter.Seq2[*manifest.Item, error] {
		return func(yield func(*manifest.Item, error) bool) {
			more, err := w.described(objects, yield)
			switch {
			case !more:
				return
			case err == nil:
				return
			case w.run.Ctx.Err() != nil:
				yield(nil, err)
				return
			case !errors.Is(err, store.ErrNotFound):
				w.log.Logger().Warn("the manifest of the backup cannot be read, so the objects in its archive tell what they need",
					"error", err)
			}
			for item, err := range bucketmanifest.OfArchive(contents, wanted, w.References) {
				if !yield(item, err) {
					return
				}
			}
		}
	}
}

// described yields the items of the manifest of the backup. more is false if yield wants no more.
func (w *work) described(objects *store.Store, yield func(*manifest.Item, error) bool) (more bool, err error) {
	stream, err := objects.Artifact(w.run.Ctx, w.source.backup.Name, manifest.FileName)
	if err != nil {
		return true, err
	}
	defer func() { _ = stream.Close() }() // only read from
	reader, err := manifest.NewReader(stream)
	if err != nil {
		return true, fmt.Errorf("read the manifest of backup %s: %w", w.source.backup.Name, err)
	}
	for item, err := range reader.Items() {
		if err != nil {
			return true, fmt.Errorf("read the manifest of backup %s: %w", w.source.backup.Name, err)
		}
		if !yield(item, nil) {
			return false, nil
		}
	}
	return true, nil
}
