package restore

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/server/internal/kube/item"
	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
)

var gvrClasses = schema.GroupVersionResource{Group: storagev1.GroupName, Version: "v1", Resource: "storageclasses"}

// bindings tells which storage classes bind claims at once.
type bindings struct {
	mu    sync.Mutex
	known map[string]bool // by the name of the class
}

// isBoundAtOnce reports whether the item is a claim that is bound before it has a pod. A claim that waits for its pod,
// or for data that is restored later, is not.
func (r *itemRun) isBoundAtOnce(ctx context.Context) (bool, error) {
	var spec corev1.PersistentVolumeClaimSpec
	if item.Unmarshal(r.obj.Top.Get("spec"), &spec) != nil || spec.Selector != nil || spec.StorageClassName == nil {
		return false, nil
	}
	return r.engine.bindsAtOnce(ctx, *spec.StorageClassName)
}

func checkClaim(live []byte) (ready bool, why string, err error) {
	var claim corev1.PersistentVolumeClaim
	if err := json.Unmarshal(live, &claim); err != nil {
		return false, "", fmt.Errorf("decode it: %w", err)
	}
	return claim.Status.Phase != corev1.ClaimPending, "its storage class binds at once, and it is not bound", nil
}

// bindsAtOnce reports whether a storage class binds claims before they have a pod. A class that cannot be read does
// not.
func (e *engine) bindsAtOnce(ctx context.Context, class string) (bool, error) {
	e.bindings.mu.Lock()
	defer e.bindings.mu.Unlock()
	if at, known := e.bindings.known[class]; known || class == "" {
		return at, nil
	}
	reply, err := e.api.Do(ctx, target{gvr: gvrClasses}.read(class, kubeapi.JSON))
	if err != nil && fatal(ctx, err) {
		return false, err
	}
	var found storagev1.StorageClass
	at := err == nil && json.Unmarshal(reply.Body, &found) == nil && found.VolumeBindingMode != nil &&
		*found.VolumeBindingMode == storagev1.VolumeBindingImmediate
	if e.bindings.known == nil {
		e.bindings.known = map[string]bool{}
	}
	e.bindings.known[class] = at
	return at, nil
}
