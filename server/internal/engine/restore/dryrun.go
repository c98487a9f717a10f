package restore

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
	"github.com/cleat-dev/cleat/server/internal/bucket/dryrun"
	"github.com/cleat-dev/cleat/server/internal/bucket/outcome"
	"github.com/cleat-dev/cleat/server/internal/kube/item"
	"github.com/cleat-dev/cleat/versioning/restoreitemaction"
)

// DryRun has the dependencies of a dry run of a restore. Every write is sent to the API server with dryRun=All, so
// that admission and validation run and nothing is stored. Objects never become ready in a dry run, so it does not
// wait.
type DryRun struct {
	// Actions selects the actions to call, which have no side effects.
	Actions *dryrun.Actions
}

// errUnchecked is returned instead of creating an object that the API server cannot check.
var errUnchecked = errors.New("the API server cannot check it yet")

// finding is what became of an item, or would in a dry run.
type finding struct {
	verdict   outcome.Verdict // of an item that is not restored; if empty, the listed action applies
	reasons   []string
	unchecked bool
}

func (f *finding) because(reason string) { f.reasons = append(f.reasons, reason) }

// refused records the reply of the API server to a write.
func (f *finding) refused(err error) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return
	}
	switch status.Status().Code {
	case http.StatusConflict:
		f.verdict = outcome.Conflict
	case http.StatusBadRequest, http.StatusForbidden, http.StatusUnprocessableEntity:
		f.verdict = outcome.Refused
	}
}

// uncheck records why the API server cannot check the item.
func (f *finding) uncheck(err error) {
	if !errors.Is(err, errUnchecked) {
		err = fmt.Errorf("%w: %w", errUnchecked, err)
	}
	f.unchecked = true
	f.because(err.Error())
}

// dryRun is the state of a dry run.
type dryRun struct {
	DryRun
}

func newDryRun(d *DryRun) *dryRun {
	if d == nil {
		return nil
	}
	return &dryRun{DryRun: *d}
}

// mayCall reports whether an action is called for an item.
func (e *engine) mayCall(a restoreitemaction.Action) bool {
	return e.dry == nil || e.dry.Actions.MayCall(a)
}

// unchecked returns an error if the API server cannot check the creation of the object in a dry run, because the
// namespace or the type does not exist. A real restore would have created it.
func (r *itemRun) unchecked(to target, home *namespaceState) error {
	switch {
	case r.engine.dry == nil:
		return nil
	case home != nil && home.absent:
		return fmt.Errorf("%w: its namespace would be created", errUnchecked)
	case r.engine.isDefined(to.gvr.GroupResource()):
		return fmt.Errorf("%w: its definition would be created", errUnchecked)
	}
	return nil
}

// isCreatedLater reports whether the API server refuses a pod in a dry run only because of an object that a real
// restore would have created.
func (r *itemRun) isCreatedLater(err error) bool {
	if r.engine.dry == nil || r.entry.GroupResource != podsResource || !apierrors.IsForbidden(err) {
		return false
	}
	var spec struct {
		ServiceAccountName string `json:"serviceAccountName"`
		PriorityClassName  string `json:"priorityClassName"`
		RuntimeClassName   string `json:"runtimeClassName"`
	}
	if item.Unmarshal(r.obj.Top.Get("spec"), &spec) != nil {
		return false
	}
	message := strings.ToLower(err.Error())
	for gr, needed := range map[schema.GroupResource]itemKey{
		{Resource: "serviceaccounts"}: {"v1/ServiceAccount", r.namespace, cmp.Or(spec.ServiceAccountName, "default")},
		{Group: "scheduling.k8s.io", Resource: "priorityclasses"}: {"scheduling.k8s.io/v1/PriorityClass", "",
			spec.PriorityClassName},
		{Group: "node.k8s.io", Resource: "runtimeclasses"}: {"node.k8s.io/v1/RuntimeClass", "", spec.RuntimeClassName},
	} {
		entry := archive.Entry{GroupResource: gr, Name: needed.name}
		if needed.namespace != "" {
			entry.Namespace = r.entry.Namespace
		}
		if needed.name != "" && strings.Contains(message, strings.ToLower(needed.kind())) &&
			strings.Contains(message, needed.name) && r.engine.tracker.created(needed, entry) {
			return true
		}
	}
	return false
}
