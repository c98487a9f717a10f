package hook

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
)

// markAnnotation of a restored pod records, as JSON, which of its hooks have run.
const markAnnotation = "cleat.dev/restore-hooks"

// mark records which hooks of a pod have run, by their position. It is written before and after each hook, so that the
// next server neither omits a hook nor runs it twice.
type mark struct {
	Restore types.UID      `json:"restore"`
	Begun   []int          `json:"begun,omitempty"` // and not ended
	Ended   map[int]string `json:"ended,omitempty"` // with the error of each
}

// markOf returns the mark of a restore on a pod, and false if there is none.
func markOf(annotations map[string]string, restore types.UID) (mark, bool) {
	var m mark
	if json.Unmarshal([]byte(annotations[markAnnotation]), &m) != nil || m.Restore != restore {
		return mark{Restore: restore}, false
	}
	return m, true
}

// IsMarked reports whether a restore runs or has run the hooks of a pod with these annotations, because it has created
// the pod.
func IsMarked(annotations map[string]string, restore types.UID) bool {
	_, marked := markOf(annotations, restore)
	return marked
}

// write stores the mark. The error is errGone if the pod no longer exists.
func (m mark) write(ctx context.Context, x *Executor, pod Pod) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	patch, err := json.Marshal(
		map[string]any{"metadata": map[string]any{"uid": pod.UID,
			"annotations": map[string]string{markAnnotation: string(text)}}},
	)
	if err != nil {
		return err
	}
	began, backoff := time.Now(), kubeapi.Backoff()
	for {
		_, err := x.pods.Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch,
			metav1.PatchOptions{FieldManager: "cleat"})
		switch {
		case err == nil:
			return nil
		case apierrors.IsNotFound(err), apierrors.IsConflict(err): // another pod of that name has another UID
			return errGone
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !kubeapi.Transient(err) || time.Since(began) > x.retryFor:
			return fmt.Errorf("write annotation %s: %w", markAnnotation, err)
		}
		if err := kubeapi.Pause(ctx, backoff, err); err != nil {
			return err
		}
	}
}
