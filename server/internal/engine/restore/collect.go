package restore

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
	"github.com/cleat-dev/cleat/server/internal/bucket/outcome"
	"github.com/cleat-dev/cleat/server/internal/kube/item"
)

// collect returns the items of a resource to restore. It counts the items that the filters include but the rules for
// servers exclude.
func (e *engine) collect(gr schema.GroupResource) (archive.Objects, error) {
	if !e.selection.IncludesResource(gr) {
		e.log.Debug("resource is excluded by the filters of the restore", "resource", gr.String())
		e.account.add(outcome.Item{Resource: gr.String(), Items: e.archive.Count(gr), Outcome: outcome.LeftOut,
			Reason: e.selection.WhyNotResource(gr)})
		return archive.Objects{}, nil
	}
	var chosen []int32
	at := int32(-1)
	leftOut := func(entry archive.Entry, why string) {
		e.account.add(outcome.Item{Resource: gr.String(), Namespace: entry.Namespace, Name: entry.Name,
			Outcome: outcome.LeftOut, Reason: why})
	}
	var unselected outcome.Item // those of one namespace; they are many
	flush := func() {
		if unselected.Items > 0 {
			e.account.add(unselected)
		}
		unselected.Items = 0
	}
	defer flush()
	for entry := range e.archive.Items(gr) {
		at++
		if !e.selection.Selects(entry) {
			if gr == namespacesResource {
				leftOut(entry, e.selection.WhyNotSelected(entry))
				continue
			}
			if unselected.Items == 0 || unselected.Namespace != entry.Namespace {
				flush()
				unselected = outcome.Item{Resource: gr.String(), Namespace: entry.Namespace, Outcome: outcome.LeftOut,
					Reason: e.selection.WhyNotSelected(entry)}
			}
			unselected.Items++
			continue
		}
		if e.selection.SelectsByContent(gr) {
			raw, err := e.archive.Read(entry)
			if err != nil {
				return archive.Objects{}, err
			}
			// An invalid item is kept, so that its restore reports the error.
			if meta, err := item.ParseMeta(raw); err == nil && !e.selection.MatchesContent(entry, meta.Kind, meta.Labels) {
				leftOut(entry, e.selection.WhyNotContent(entry, meta.Kind, meta.Labels))
				continue
			}
		}
		if e.selection.Restores(entry) {
			chosen = append(chosen, at)
			continue
		}
		leftOut(entry, e.selection.WhyNotRestored(entry))
		if e.selection.BelongsToServer(gr, e.selection.Target(entry.Namespace)) {
			e.log.Info("not restored: a server would act on it or lives on it", "resource", gr.String(), "namespace",
				entry.Namespace, "name", entry.Name)
			e.leaveOut(gr)
		}
	}
	return e.archive.Choose(gr, chosen), nil
}
