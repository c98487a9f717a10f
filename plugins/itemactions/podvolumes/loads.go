package podvolumes

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/loadproof"
)

// cleanUpTimeout bounds the cancellation of loads whose call has failed.
const cleanUpTimeout = time.Minute

// Deps are the dependencies of the actions.
type Deps struct {
	Objects   func() (client.Client, error)
	Namespace func() (string, error) // of the server
	// Settings returns the data of the ConfigMap that configures a restore item action; nil if there is none.
	Settings func(ctx context.Context, action string) (map[string]string, error)
}

// open returns a client, and the namespace of the server.
func (d Deps) open() (client.Client, string, error) {
	api, err := d.Objects()
	if err != nil {
		return nil, "", err
	}
	namespace, err := d.Namespace()
	return api, namespace, err
}

// load is a PodVolumeBackup or a PodVolumeRestore.
type load struct {
	client.Object
	volume string // of the pod
	status *velerov1.LoadStatus
}

// isOurs reports whether a load is signed with a key, if there is one.
func isOurs(key loadproof.Key, object client.Object) bool {
	return key.IsZero() || key.Verify(object) == nil
}

// loadOf returns a load. A status that no node agent has written is left out.
func loadOf(key loadproof.Key, object client.Object, volume string, status *velerov1.LoadStatus) load {
	if !key.IsZero() && !status.Phase.IsNew() && key.VerifyStatus(object) != nil {
		*status = velerov1.LoadStatus{Message: fmt.Sprintf("its status, %s, was not written by a node agent", status.Phase)}
	}
	return load{object, volume, status}
}

// findBackups returns the PodVolumeBackups of an operation that are signed.
func findBackups(ctx context.Context, api client.Client, key loadproof.Key, namespace, id string) ([]load, error) {
	var list velerov1.PodVolumeBackupList
	err := api.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabels{velerov1.AsyncOperationIDLabel: id})
	var all []load
	for i := range list.Items {
		b := &list.Items[i]
		if isOurs(key, b) {
			all = append(all, loadOf(key, b, b.Spec.Volume, &b.Status.LoadStatus))
		}
	}
	return all, err
}

// findRestores returns the PodVolumeRestores of an operation that are signed.
func findRestores(ctx context.Context, api client.Client, key loadproof.Key, namespace, id string) ([]load, error) {
	var list velerov1.PodVolumeRestoreList
	err := api.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabels{velerov1.AsyncOperationIDLabel: id})
	var all []load
	for i := range list.Items {
		r := &list.Items[i]
		if isOurs(key, r) {
			all = append(all, loadOf(key, r, r.Spec.Volume, &r.Status.LoadStatus))
		}
	}
	return all, err
}

func has(loads []load, volume string) bool {
	return slices.ContainsFunc(loads, func(l load) bool { return l.volume == volume })
}

// idPattern matches the ids of operations.
var idPattern = regexp.MustCompile(`^op-[0-9a-f]{32}$`)

// checkID returns an error unless an id can be one of this package.
func checkID(id string) error {
	if !idPattern.MatchString(id) {
		return framework.NotFound("%q is not the id of an operation on the volumes of a pod", id)
	}
	return nil
}

// nameFor returns the name of the load of a volume for an operation of owner. It looks like one that the API server
// generates, and no other client uses it.
func nameFor(owner, id, volume string) string {
	sum := sha256.Sum256([]byte(id + "/" + volume))
	const prefix = 50
	base := strings.TrimRight(owner[:min(len(owner), prefix)], ".-")
	return base + "-" + hex.EncodeToString(sum[:6])
}

// createAll signs and creates loads. If one fails, the existing ones are cancelled.
func createAll(ctx context.Context, api client.Client, key loadproof.Key, loads []client.Object) error {
	for i, object := range loads {
		err := key.Sign(object)
		if err == nil {
			err = api.Create(ctx, object)
		}
		if apierrors.IsAlreadyExists(err) { // created by a request whose reply was lost
			if err = api.Get(ctx, client.ObjectKeyFromObject(object), object); err == nil && !isOurs(key, object) {
				err = errors.New("one of this name exists that the server has not made; delete it")
			}
		}
		if err != nil {
			return errors.Join(fmt.Errorf("create %T %s: %w", object, object.GetName(), err), cancelLate(ctx, api, loads[:i]))
		}
	}
	return nil
}

func cancelLate(ctx context.Context, api client.Client, loads []client.Object) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTimeout)
	defer stop()
	var failed []error
	for _, object := range loads {
		failed = append(failed, cancel(ctx, api, object))
	}
	return errors.Join(failed...)
}

// cancel asks the agent to end a load. It is no error that it does not exist.
func cancel(ctx context.Context, api client.Client, object client.Object) error {
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"cancel":true}}`))
	if err := client.IgnoreNotFound(api.Patch(ctx, object, patch)); err != nil {
		return fmt.Errorf("cancel %s: %w", object.GetName(), err)
	}
	return nil
}

// cancelOpen cancels the loads that have not ended.
func cancelOpen(ctx context.Context, api client.Client, loads []load) error {
	for _, l := range loads {
		if l.status.Phase.Terminal() {
			continue
		}
		if err := cancel(ctx, api, l.Object); err != nil {
			return err
		}
	}
	return nil
}

// failOpen ends the loads that have not ended, on behalf of an agent that is away. It returns an error if the agent has
// changed one meanwhile.
func failOpen(ctx context.Context, api client.Client, key loadproof.Key, loads []load, why string) error {
	for _, l := range loads {
		if l.status.Phase.Terminal() {
			continue
		}
		before, ok := l.DeepCopyObject().(client.Object)
		if !ok {
			return fmt.Errorf("a %T cannot be copied", l.Object)
		}
		l.status.Phase, l.status.Message, l.status.CompletionTimestamp = velerov1.LoadPhaseFailed, why,
			&metav1.Time{Time: time.Now()}
		controllerutil.RemoveFinalizer(l.Object, velerov1.PodVolumeFinalizer)
		delete(l.GetLabels(), velerov1.ExposeOnGoingLabel)
		if err := key.SignStatus(l.Object); err != nil {
			return fmt.Errorf("sign the status of %s: %w", l.GetName(), err)
		}
		err := api.Patch(ctx, l.Object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("end %s, whose agent is away: %w", l.GetName(), err)
		}
	}
	return nil
}

func progressOf(loads []load) framework.OperationProgress {
	p := framework.OperationProgress{Completed: true, Units: "bytes", Updated: time.Now()}
	var failed, waits []string
	for _, l := range loads {
		p.NCompleted += max(0, l.status.Progress.BytesDone)
		p.NTotal += max(0, l.status.Progress.TotalBytes)
		if at := l.status.StartTimestamp; at != nil && (p.Started.IsZero() || at.Time.Before(p.Started)) {
			p.Started = at.Time
		}
		text := fmt.Sprintf("volume %s: %s", l.volume, cmp.Or(l.status.Phase, velerov1.LoadPhaseNew))
		if l.status.Message != "" {
			text += ": " + l.status.Message
		}
		switch phase := l.status.Phase; {
		case !phase.Terminal():
			waits = append(waits, text)
		case phase != velerov1.LoadPhaseCompleted:
			failed = append(failed, text)
		}
	}
	for _, volume := range missing(loads) {
		failed = append(failed, fmt.Sprintf("volume %s: its custom resource was deleted", volume))
	}
	slices.Sort(failed)
	slices.Sort(waits)
	p.Completed, p.Description = len(waits) == 0, strings.Join(waits, "; ")
	if p.Completed {
		p.Err = strings.Join(failed, "; ")
	}
	return p
}

// missing returns the volumes whose loads were deleted.
func missing(loads []load) []string {
	if len(loads) == 0 {
		return nil
	}
	return slices.DeleteFunc(strings.Split(loads[0].GetAnnotations()[velerov1.LoadVolumesAnnotation], ","),
		func(volume string) bool {
			return volume == "" || has(loads, volume)
		})
}
