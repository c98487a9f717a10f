package csi

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/api/velero/v2alpha1"
	"github.com/cleat-dev/cleat/framework/loadproof"
	"github.com/cleat-dev/cleat/plugins/itemactions/internal/agentpods"
)

// loadKind is DataUpload or DataDownload, which are found by the operations that they carry out.
type loadKind struct {
	resource schema.GroupVersionResource
	kind     string
}

var (
	uploads   = loadKind{v2alpha1.SchemeGroupVersion.WithResource("datauploads"), "DataUpload"}
	downloads = loadKind{v2alpha1.SchemeGroupVersion.WithResource("datadownloads"), "DataDownload"}
)

// loads are the DataUploads or DataDownloads of a namespace that are signed with the key of a run; without a key, all
// of them.
type loads struct {
	loadKind
	api dynamic.ResourceInterface
	key loadproof.Key
}

func loadsIn(cluster Cluster, kind loadKind, namespace string, key loadproof.Key) (*loads, error) {
	objects, err := cluster.Dynamic()
	if err != nil {
		return nil, err
	}
	return &loads{kind, objects.Resource(kind.resource).Namespace(namespace), key}, nil
}

// isOurs reports whether a load is signed.
func (l *loads) isOurs(object metav1.Object) bool {
	return l.key.IsZero() || l.key.Verify(object) == nil
}

// load is what a DataUpload and a DataDownload have in common.
type load struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Cancel    bool   `json:"cancel"`
		DataMover string `json:"datamover"`
	} `json:"spec"`
	Status velerov1.LoadStatus `json:"status"`
}

// create signs and creates a load. It is no error that it exists.
func (l *loads) create(ctx context.Context, object metav1.Object) error {
	if err := l.key.Sign(object); err != nil {
		return fmt.Errorf("sign the %s: %w", l.kind, err)
	}
	wanted, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return fmt.Errorf("encode the %s: %w", l.kind, err)
	}
	delete(wanted, "status")
	u := &unstructured.Unstructured{Object: wanted}
	u.SetGroupVersionKind(l.resource.GroupVersion().WithKind(l.kind))
	_, err = l.api.Create(ctx, u, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) { // by a request whose reply was lost, or by a process that was killed
		var known *unstructured.Unstructured
		known, err = l.api.Get(ctx, u.GetName(), metav1.GetOptions{})
		if err == nil && known.GetLabels()[velerov1.AsyncOperationIDLabel] != u.GetLabels()[velerov1.AsyncOperationIDLabel] {
			err = errors.New("one of this name exists, for another operation")
		} else if err == nil && !l.isOurs(known) {
			err = errors.New("one of this name exists that the server has not made; delete it")
		}
	}
	if err != nil {
		return fmt.Errorf("create %s %s: %w", l.kind, u.GetName(), err)
	}
	return nil
}

// find returns the loads with a label, those that go on first, the newest first. A status that no node agent has
// written is left out.
func (l *loads) find(ctx context.Context, label, value string) ([]load, error) {
	list, err := l.api.List(ctx, metav1.ListOptions{LabelSelector: label + "=" + value})
	if err != nil {
		return nil, fmt.Errorf("list the %ss with the label %s=%s: %w", l.kind, label, value, err)
	}
	var found []load
	for i := range list.Items {
		item, decoded := &list.Items[i], load{}
		if !l.isOurs(item) {
			continue
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(item.Object, &decoded); err != nil {
			return nil, fmt.Errorf("decode %s %s: %w", l.kind, item.GetName(), err)
		}
		if !l.key.IsZero() && velerov1.IsBuiltInMover(decoded.Spec.DataMover) && !decoded.Status.Phase.IsNew() &&
			l.key.VerifyStatus(item) != nil {
			decoded.Status = velerov1.LoadStatus{Message: fmt.Sprintf("its status, %s, was not written by a node agent",
				decoded.Status.Phase)}
		}
		found = append(found, decoded)
	}
	over := func(l load) int {
		if l.Spec.Cancel || l.DeletionTimestamp != nil {
			return 1
		}
		return 0
	}
	slices.SortFunc(found, func(a, b load) int {
		return cmp.Or(cmp.Compare(over(a), over(b)), b.CreationTimestamp.Compare(a.CreationTimestamp.Time),
			cmp.Compare(a.Name, b.Name))
	})
	return found, nil
}

// progress returns how far the load of an operation is.
func (l *loads) progress(ctx context.Context, operation string) (framework.OperationProgress, *load, error) {
	found, err := l.find(ctx, velerov1.AsyncOperationIDLabel, operation)
	if err != nil {
		return framework.OperationProgress{}, nil, err
	}
	if len(found) == 0 {
		return framework.OperationProgress{}, nil, framework.NotFound("the %s of operation %s does not exist, or was "+
			"deleted", l.kind, operation)
	}
	s := &found[0].Status
	progress := framework.OperationProgress{
		NCompleted: max(0, s.Progress.BytesDone), NTotal: max(0, s.Progress.TotalBytes), Units: "Bytes",
		Description: string(cmp.Or(s.Phase, velerov1.LoadPhaseNew)),
		Completed:   s.Phase.Terminal(),
	}
	for at, of := range map[*time.Time]*metav1.Time{&progress.Started: s.StartTimestamp,
		&progress.Updated: s.CompletionTimestamp} {
		if of != nil {
			*at = of.Time
		}
	}
	switch {
	case s.Phase == velerov1.LoadPhaseFailed:
		progress.Err = cmp.Or(s.Message, l.kind+" "+found[0].Name+" failed")
	case s.Phase == velerov1.LoadPhaseCanceled:
		progress.Err = fmt.Sprintf("%s %s is canceled%s", l.kind, found[0].Name, because(s.Message))
	case s.Message != "" && !progress.Completed:
		progress.Description += ": " + s.Message
	}
	return progress, &found[0], nil
}

// checkAgents returns an error if a data mover is one of node agents, and there are none.
func checkAgents(ctx context.Context, cluster Cluster, namespace, mover string) error {
	if !velerov1.IsBuiltInMover(mover) {
		return nil
	}
	api, err := cluster.Objects()
	if err != nil {
		return err
	}
	return agentpods.CheckAny(ctx, api, namespace)
}

// follow returns how far the load of an operation is. It ends a load for which there have been no agents for long.
func (l *loads) follow(
	ctx context.Context, cluster Cluster, agents *agentpods.Watch, namespace, operation string,
) (framework.OperationProgress, error) {
	progress, of, err := l.progress(ctx, operation)
	if err != nil || progress.Completed || !velerov1.IsBuiltInMover(of.Spec.DataMover) {
		agents.Ended(operation)
		return progress, err
	}
	api, err := cluster.Objects()
	if err != nil {
		return progress, err
	}
	moving := of.Status.Phase == velerov1.LoadPhaseInProgress
	why, long, err := agents.Missed(ctx, api, namespace, "", operation, moving)
	switch {
	case err != nil || why == "":
		return progress, err
	case !long:
		progress.Description += "; " + why
		return progress, nil
	}
	if err := l.fail(ctx, of.Name, why); err != nil {
		return progress, err
	}
	agents.Ended(operation)
	progress, _, err = l.progress(ctx, operation)
	return progress, err
}

// fail ends a load on behalf of an agent that is away. It returns an error if an agent has changed it meanwhile.
func (l *loads) fail(ctx context.Context, name, why string) error {
	load, err := l.api.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get %s %s: %w", l.kind, name, err)
	}
	for field, value := range map[string]string{"phase": string(velerov1.LoadPhaseFailed), "message": why,
		"completionTimestamp": time.Now().UTC().Format(time.RFC3339)} {
		if err := unstructured.SetNestedField(load.Object, value, "status", field); err != nil {
			return fmt.Errorf("set the status of %s %s: %w", l.kind, name, err)
		}
	}
	load.SetFinalizers(slices.DeleteFunc(load.GetFinalizers(), func(name string) bool {
		return name == velerov1.DataUploadDownloadFinalizer
	}))
	labels := load.GetLabels()
	delete(labels, velerov1.ExposeOnGoingLabel)
	load.SetLabels(labels)
	if err := l.key.SignStatus(load); err != nil {
		return fmt.Errorf("sign the status of %s %s: %w", l.kind, name, err)
	}
	if _, err := l.api.Update(ctx, load, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("end %s %s, whose agents are away: %w", l.kind, name, err)
	}
	return nil
}

// cancel asks for the end of the loads with a label. It returns how many there are.
func (l *loads) cancel(ctx context.Context, label, value string) (int, error) {
	found, err := l.find(ctx, label, value)
	if err != nil {
		return 0, err
	}
	for i := range found {
		if found[i].Spec.Cancel || found[i].Status.Phase.Terminal() {
			continue
		}
		_, err := l.api.Patch(ctx, found[i].Name, types.MergePatchType, []byte(`{"spec":{"cancel":true}}`),
			metav1.PatchOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return 0, fmt.Errorf("cancel %s %s: %w", l.kind, found[i].Name, err)
		}
	}
	return len(found), nil
}

// cancelOperation asks for the end of the load of an operation.
func (l *loads) cancelOperation(ctx context.Context, operation string) error {
	count, err := l.cancel(ctx, velerov1.AsyncOperationIDLabel, operation)
	if err == nil && count == 0 {
		err = framework.NotFound("the %s of operation %s does not exist, or was deleted", l.kind, operation)
	}
	return err
}

// metadata returns the metadata of a load that belongs to a run of the server, with Velero's names.
func metadata(owner metav1.Object, kind, name, operation string, labels map[string]string) metav1.ObjectMeta {
	labels[velerov1.AsyncOperationIDLabel] = operation
	return metav1.ObjectMeta{
		Namespace: owner.GetNamespace(), Name: name, Labels: labels,
		OwnerReferences: []metav1.OwnerReference{velerov1.ControllerRef(kind, owner)},
	}
}

// derivedName returns a name of the form that the API server would generate, the same for the same base and key.
func derivedName(base, key string) string {
	sum := sha256.Sum256([]byte(key))
	return prefix(base) + hex.EncodeToString(sum[:])[:5]
}

// prefix returns the beginning of a generated name, which leaves room for 5 letters in a label.
func prefix(base string) string { return (base + "-")[:min(len(base)+1, 58)] }
