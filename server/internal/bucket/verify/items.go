package verify

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"maps"
	"slices"
	"strings"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/kube/item"
	"github.com/cleat-dev/cleat/server/internal/kube/shorten"
)

// compareSums reads the archive, and compares its items with their sums.
func (r *run) compareSums(ctx context.Context) error {
	name := r.archive()
	open := func() (io.ReadCloser, error) { return r.Objects.BackupItemSums(ctx, r.Backup) }
	items := 0
	var damage error
	_, err := r.stream(ctx, name, func(body io.Reader) (_ int64, err error) {
		items, err = archive.CompareSums(ctx, body, open, func(o archive.Object, how archive.Difference) {
			switch of := itemName(o.GroupResource.String(), objectName(o.Namespace, o.Name)); how {
			case archive.Changed:
				r.Add(velerov1.FindingChanged, of, "the item was changed")
			case archive.Added:
				r.Add(velerov1.FindingAdded, of, "the backup does not have the item, or has it only once")
			case archive.Missing:
				r.Add(velerov1.FindingMissing, of, "the item is missing in the archive, or cannot be read from it")
			}
		})
		if archive.IsDamage(err) {
			damage, err = err, nil
		}
		return 0, err
	})
	switch {
	case errors.Is(err, archive.ErrSums):
		r.Note("%v", err)
		return r.compareItems(ctx)
	case err != nil:
		return r.unreadable(ctx, name, err)
	case damage != nil:
		r.addDamage(items, damage)
	}
	return nil
}

func (r *run) addDamage(items int, damage error) {
	r.Add(velerov1.FindingChanged, file(r.archive()), "the archive cannot be read to its end, %d items can: %v", items,
		damage)
}

// itemName returns the name of an item, such as "item deployments.apps shop/web", or "item apps/v1/Deployment shop/web"
// if only the list of the items is known.
func itemName(kind, object string) string {
	return shorten.Text(fmt.Sprintf("item %s %s", kind, object), 300)
}

// objectName returns the name of an object as the list of the items has it.
func objectName(namespace, name string) string { return strings.TrimPrefix(namespace+"/"+name, "/") }

// compareItems reads the archive, and compares its items with the list of the items of the backup.
func (r *run) compareItems(ctx context.Context) error {
	name := r.archive()
	const kind = velerov1.DownloadTargetKindBackupResourceList
	var listed map[string][]string
	list := r.fileName("resource-list.json.gz")
	if r.names[list] && (r.read[list] || len(r.want) == 0) {
		found, err := store.DecodeJSON[map[string][]string](ctx, r.Objects, kind, r.Backup)
		if err == nil {
			listed = found
		} else {
			r.Note("the items of the archive could not be compared with their list: %v", err)
		}
	}
	seed := maphash.MakeSeed()
	id := func(gvk, object string) uint64 { return maphash.String(seed, gvk+"\x00"+object) }
	missing := map[uint64]bool{} // false once it was found
	count := 0
	for gvk, objects := range listed {
		for _, object := range objects {
			missing[id(gvk, object)] = true
			count++
		}
	}
	items := 0
	var damage error
	_, err := r.stream(ctx, name, func(body io.Reader) (int64, error) {
		damage = archive.Walk(ctx, body, archive.DefaultLimits(), func(o archive.Object) error {
			items++
			meta, err := item.ParseMeta(o.JSON)
			if err == nil {
				err = o.Check(meta)
			}
			if err != nil {
				r.Add(velerov1.FindingChanged, "item "+shorten.Text(o.Path(), 300), "the item is damaged: %v", err)
				return nil
			}
			object := objectName(meta.Namespace, meta.Name)
			if o.Version != "" { // another version of an item that the list has once
				return nil
			}
			key := id(meta.APIVersion+"/"+meta.Kind, object)
			if _, known := missing[key]; known {
				missing[key] = false
			} else if listed != nil {
				r.Add(velerov1.FindingAdded, itemName(meta.APIVersion+"/"+meta.Kind, object),
					"the item is in the archive and not in the list of its items")
			}
			return nil
		})
		return 0, nil
	})
	if err != nil {
		return r.unreadable(ctx, name, err)
	}
	if damage != nil {
		r.addDamage(items, damage)
	}
	for _, gvk := range slices.Sorted(maps.Keys(listed)) {
		for _, object := range listed[gvk] {
			if missing[id(gvk, object)] {
				r.Add(velerov1.FindingMissing, itemName(gvk, object), "the item is missing in the archive")
			}
		}
	}
	return nil
}
