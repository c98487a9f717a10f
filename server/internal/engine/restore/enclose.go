package restore

import (
	"cmp"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/cleat-dev/cleat/server/internal/engine/restore/object"
	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
	"github.com/cleat-dev/cleat/server/internal/spec/enclosure"
)

// enclose decides what becomes of the item, and changes it; see Request.Enclose. last is set once the actions of
// plugins were called. leftOut is set if the item is not restored.
func (r *itemRun) enclose(last bool) (leftOut bool, err error) {
	if r.engine.enclose == nil {
		return false, nil
	}
	data := r.dataOf()
	decision, err := r.engine.enclose(enclosure.Item{
		Resource: r.entry.GroupResource, Namespace: r.namespace, Raw: r.obj.Encode(), Last: last,
		HasSnapshot: r.entry.GroupResource == volumesResource && len(data) > 0 && data[0].Snapshot != nil &&
			!r.keepsDisk(data),
	})
	if err != nil {
		return true, r.fail(err)
	}
	switch decision.Treatment {
	case enclosure.LeaveOut:
		if r.entry.GroupResource == volumesResource {
			r.engine.addProvisioned(r.obj.Name)
		}
		r.leave("not rehearsed: " + decision.Reason)
		return true, nil
	case enclosure.Try:
		if !r.tried {
			r.tried = true
			r.finding.because(decision.Reason)
		}
		return false, nil
	}
	if !last {
		return false, nil
	}
	if r.changesType() {
		return true, r.fail(fmt.Errorf("error restoring %s: a resource modifier made it a %s, which is not rehearsed", r.id,
			r.obj.ListKey()))
	}
	// What is sent is what the decision was made on.
	decided, err := object.Decode(decision.Raw)
	if err != nil {
		return true, r.fail(fmt.Errorf("decode %s as it is rehearsed: %w", r.id, err))
	}
	r.obj, r.reset = decided, decided
	if len(decision.Changes) > 0 {
		r.finding.because("rehearsed " + strings.Join(decision.Changes, ", "))
		r.log.Info("changed for the rehearsal", "changes", decision.Changes)
	}
	return false, nil
}

// isUntriable reports whether the API server cannot say whether it would create an object.
func isUntriable(err error) bool {
	return kubeapi.PathNotFound(err) ||
		apierrors.IsBadRequest(err) && strings.Contains(err.Error(), "does not support dry run")
}

// concludeTrial records the answer of the API server to a dry run of the item. err is that of isUntriable, or nil.
func (r *itemRun) concludeTrial(err error) {
	r.claim.action = cmp.Or(r.claim.action, actionSkipped)
	if err == nil {
		r.finding.because("the API server accepts it in a dry run")
		return
	}
	r.finding.unchecked = true
	r.finding.because("not tried: " + err.Error())
}
