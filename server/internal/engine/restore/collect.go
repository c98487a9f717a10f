package restore

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
	"github.com/cleat-dev/cleat/server/internal/kube/item"
)

// collect returns the items of a resource to restore. It counts the items that the filters include but the rules for
// servers exclude.
func (e *engine) collect(gr schema.GroupResource) ([]archive.Entry, error) {
	if !e.selection.IncludesResource(gr) {
		e.log.Debug("resource is excluded by the filters of the restore", "resource", gr.String())
		return nil, nil
	}
	var entries []archive.Entry
	for entry := range e.archive.Items(gr) {
		if !e.selection.Selects(entry) {
			continue
		}
		if e.selection.SelectsByContent(gr) {
			raw, err := e.archive.Read(entry)
			if err != nil {
				return nil, err
			}
			// An invalid item is kept, so that its restore reports the error.
			if meta, err := item.ParseMeta(raw); err == nil && !e.selection.MatchesContent(entry, meta.Kind, meta.Labels) {
				continue
			}
		}
		switch {
		case e.selection.Restores(entry):
			entries = append(entries, entry)
		case e.selection.BelongsToServer(gr, e.selection.Target(entry.Namespace)):
			e.log.Info("not restored: a server would act on it or lives on it", "resource", gr.String(), "namespace",
				entry.Namespace, "name", entry.Name)
			e.leaveOut(gr)
		}
	}
	return entries, nil
}
