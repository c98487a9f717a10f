package restore

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
	"github.com/cleat-dev/cleat/server/internal/engine/restore/object"
	"github.com/cleat-dev/cleat/server/internal/engine/volumes"
	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
	"github.com/cleat-dev/cleat/server/internal/kube/waits"
)

// itemRun is the state of the restore of one item.
type itemRun struct {
	engine    *engine
	worker    *worker
	log       hclog.Logger
	entry     archive.Entry
	namespace string // the target namespace
	id        string // for messages: "deployments.apps/ns/name", with the target namespace
	raw       []byte // as in the archive
	obj       *object.Object
	reset     *object.Object // obj before the user's modifiers
	key       itemKey
	claim     *claim
	liveName  string // in the cluster
	status    []byte // in the archive

	volumeName string // of a claim
	// ephemeralOwner is the pod of a claim of a generic ephemeral volume; "" for none.
	ephemeralOwner string
	made           *volumes.Volume // for a persistent volume; nil for none

	moving   string // the action that restores the volumes of a pod
	operates bool   // an action has started an operation

	controlled  bool // it has a controller in the archive
	archivedUID types.UID
	owners      []metav1.OwnerReference // in the archive; nil if they are not restored
	given       []metav1.OwnerReference // those of them with which it is written
	uid         types.UID               // in the cluster
	existed     bool                    // before it was written
	ownable     bool                    // although it existed, it gets owners

	tried bool // the API server gets it as a dry run only; see Request.Enclose

	warned, failed bool
	refusals       atomic.Int32
	refusal        atomic.Pointer[error] // the last one, while it is postponed
	waits          waits.Part
	postponed      bool // the API server has refused it, and is asked again
	finding        finding
}

// named records the name of the object in the cluster, which the API server may have made.
func (r *itemRun) named(name string) {
	r.liveName = cmp.Or(name, r.key.name)
	r.engine.tracker.named(r.key, name)
}

// warn records a warning about the item.
func (r *itemRun) warn(err error) { r.warnIn(r.namespace, err) }

func (r *itemRun) warnIn(namespace string, err error) {
	r.warned = true
	r.finding.because(err.Error())
	r.log.Warn(err.Error())
	r.engine.results.Warning(namespace, err.Error())
}

// caution records a warning that does not say that the item is not restored.
func (r *itemRun) caution(err error) {
	r.finding.because(err.Error())
	r.log.Warn(err.Error())
	r.engine.results.Warning(r.namespace, err.Error())
}

// leave records the reason why the item is not restored. It is neither a warning nor an error.
func (r *itemRun) leave(why string, details ...any) {
	r.finding.because(why)
	r.log.Info("not restored: "+why, details...)
}

// fail records an error of the item. It returns the error only if it ends the whole restore.
func (r *itemRun) fail(err error) error {
	if errors.Is(err, kubeapi.ErrUnreachable) {
		return err
	}
	r.failed = true
	r.finding.because(err.Error())
	r.log.Error(err.Error())
	r.engine.results.Error(r.namespace, err.Error())
	return nil
}

// fatal reports whether an error ends the whole restore: the API server is unavailable, or ctx has ended.
func fatal(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, kubeapi.ErrUnreachable)
}

// causeOf returns the cause of ctx if it has ended.
func causeOf(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}
