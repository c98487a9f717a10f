package plugin

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/cleat-dev/cleat/examples/data-mover/api/v1"
	"github.com/cleat-dev/cleat/framework"
	abiav1 "github.com/cleat-dev/cleat/framework/asyncbackupitemaction/v1"
	ariav1 "github.com/cleat-dev/cleat/framework/asyncrestoreitemaction/v1"
	deletev1 "github.com/cleat-dev/cleat/framework/deleteitemaction/v1"
)

// Name is the name of all actions.
const Name = "mover.example.io/volumes"

// SnapshotAnnotation is the annotation of a claim that names the snapshot of its data. It is in the backup only.
const SnapshotAnnotation = "mover.example.io/snapshot"

// Registrations returns the actions.
func Registrations() []framework.Registration {
	settings := framework.WithConfig(config{
		Namespace: cmp.Or(os.Getenv("CLEAT_DATA_MOVER_NAMESPACE"), os.Getenv("VELERO_NAMESPACE"), "velero"),
	})
	return []framework.Registration{
		abiav1.Register(Name, newBackup, settings),
		ariav1.Register(Name, newRestore, settings),
		deletev1.Register(Name, newDelete, settings),
	}
}

// config is the configuration of the actions.
type config struct {
	Namespace string `json:"namespace" jsonschema:"the namespace of the DataTransfers, where the controller looks for them"`
	Selector  string `json:"selector,omitempty" jsonschema:"the label selector of the claims whose data is moved; empty for all"`
}

// transfers has the parts that all actions share.
type transfers struct {
	config
	client client.Client
}

func newTransfers(setup *framework.Setup) (transfers, error) {
	cluster, err := v1.Cluster()
	if err != nil {
		return transfers{}, err
	}
	scheme := runtime.NewScheme()
	if err := v1.AddToScheme(scheme); err != nil {
		return transfers{}, err
	}
	made, err := client.New(cluster, client.Options{Scheme: scheme})
	if err != nil {
		return transfers{}, fmt.Errorf("reach the cluster: %w", err)
	}
	return transfers{config: framework.Config[config](setup), client: made}, nil
}

// AppliesTo implements all actions.
func (t transfers) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedResources: []string{"persistentvolumeclaims"}, LabelSelector: t.Selector},
		nil
}

// start creates a transfer, unless it was created under the same key before, and returns the ID of the operation. The
// name of the transfer follows from the key: if two processes try, one creates it, and both return it.
func (t transfers) start(ctx context.Context, spec v1.Spec) (id string, err error) {
	transfer := v1.New(t.Namespace, spec)
	id = transfer.Namespace + "/" + transfer.Name
	err = t.client.Create(ctx, transfer)
	switch {
	case apierrors.IsAlreadyExists(err):
		framework.Log(ctx).Debug("the transfer was started before", "transfer", id)
	case err != nil:
		return "", fmt.Errorf("start a %s of claim %s/%s: %w", spec.Direction, spec.Claim.Namespace, spec.Claim.Name, err)
	default:
		framework.Log(ctx).Info("started a transfer", "transfer", id, "direction", spec.Direction,
			"namespace", spec.Claim.Namespace, "name", spec.Claim.Name)
	}
	return id, nil
}

func (t transfers) get(ctx context.Context, id string) (*v1.DataTransfer, error) {
	namespace, name, found := strings.Cut(id, "/")
	if !found || namespace == "" || name == "" || strings.ContainsAny(name, "/%") {
		return nil, framework.NotFound("%.100q is no transfer, want NAMESPACE/NAME", id)
	}
	var transfer v1.DataTransfer
	err := t.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &transfer)
	if apierrors.IsNotFound(err) {
		return nil, framework.NotFound("transfer %s is gone", id)
	}
	return &transfer, err
}

func (t transfers) progress(ctx context.Context, id string) (framework.OperationProgress, error) {
	transfer, err := t.get(ctx, id)
	if err != nil {
		return framework.OperationProgress{}, err
	}
	status, created := &transfer.Status, transfer.CreationTimestamp.Time
	progress := framework.OperationProgress{
		Completed: status.Ended(), NCompleted: status.BytesDone, NTotal: status.BytesTotal, Units: "bytes",
		Description: status.Message,
		Started:     created, Updated: created,
	}
	if status.UpdatedAt.After(created) {
		progress.Updated = status.UpdatedAt.Time
	}
	switch status.Phase {
	case "":
		progress.Description = "waiting for a controller of the mover"
	case v1.Failed, v1.Cancelled:
		progress.Err = cmp.Or(status.Message, string(status.Phase))
	}
	if status.FilesTotal > 0 {
		progress.Description = fmt.Sprintf("%s, %d of %d files", progress.Description, status.FilesDone, status.FilesTotal)
	}
	return progress, nil
}

// cancel requests the end of an operation. The controller ends it, and progress reports that.
func (t transfers) cancel(ctx context.Context, id string) error {
	transfer, err := t.get(ctx, id)
	if err != nil || transfer.Spec.Cancel || transfer.Status.Ended() {
		return err
	}
	err = t.client.Patch(ctx, transfer, client.RawPatch("application/merge-patch+json",
		[]byte(`{"spec":{"cancel":true}}`)))
	if apierrors.IsNotFound(err) {
		return framework.NotFound("transfer %s is gone", id)
	}
	return err
}

// claimOf returns the claim that an item represents.
func claimOf(item *unstructured.Unstructured) v1.Claim {
	return v1.Claim{Namespace: item.GetNamespace(), Name: item.GetName()}
}

// annotate sets the annotation of a claim that names its snapshot, or removes it if snapshot is empty.
func annotate(claim *unstructured.Unstructured, snapshot string) {
	annotations := claim.GetAnnotations()
	if snapshot == "" {
		delete(annotations, SnapshotAnnotation)
	} else {
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[SnapshotAnnotation] = snapshot
	}
	claim.SetAnnotations(annotations)
}
