package volumes

import (
	"context"
	"fmt"

	"github.com/hashicorp/go-hclog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	velerov2alpha1 "github.com/cleat-dev/cleat/framework/api/velero/v2alpha1"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
)

// written lists the loads of a kind that a backup has created and whose status node agents have written. Whoever may
// create a load could otherwise have it restored, and any snapshot removed.
func written[T any, P interface {
	*T
	metav1.Object
}](ctx context.Context, h *Hub, b *velerov1.Backup, list client.ObjectList, items *[]T, log hclog.Logger) ([]T, error) {
	err := h.Live.List(ctx, list, client.InNamespace(b.Namespace),
		client.MatchingLabels{velerov1.BackupUIDLabel: string(b.UID)})
	if err != nil {
		return nil, fmt.Errorf("list the loads of the backup: %w", err)
	}
	var proven []T
	for _, one := range *items {
		load := P(&one)
		switch ok, err := h.Keys.Written(ctx, operation.OfBackup, b.UID, load); {
		case err != nil:
			return nil, err
		case ok:
			proven = append(proven, one)
		default:
			log.Warn("a load with the label of the backup is left out: it was not created by the backup, or no node agent has "+
				"written its status", "kind", fmt.Sprintf("%T", one), "name", load.GetName())
		}
	}
	return proven, nil
}

// uploads returns the DataUploads of the operations of a backup, by the ids of the operations.
func (h *Hub) uploads(
	ctx context.Context, b *velerov1.Backup, operations []operation.Operation, log hclog.Logger,
) (map[string]*velerov2alpha1.DataUpload, error) {
	uploads := map[string]*velerov2alpha1.DataUpload{}
	for _, op := range movements(operations, h.Roles) {
		for _, item := range op.PostOperationItems {
			if item.Resource != "datauploads" {
				continue
			}
			upload := new(velerov2alpha1.DataUpload)
			err := h.Live.Get(ctx, client.ObjectKey{Namespace: b.Namespace, Name: item.Name}, upload)
			if client.IgnoreNotFound(err) != nil {
				return nil, fmt.Errorf("get DataUpload %s: %w", item.Name, err)
			}
			if err != nil {
				continue
			}
			if err := h.distrust(ctx, b, upload, log); err != nil {
				return nil, err
			}
			uploads[op.ID] = upload
		}
	}
	return uploads, nil
}

// distrust makes a DataUpload failed that was not created by the backup, or whose status no node agent has written. The
// status of one that the mover of a vendor moves is the vendor's.
func (h *Hub) distrust(
	ctx context.Context, b *velerov1.Backup, upload *velerov2alpha1.DataUpload, log hclog.Logger,
) error {
	check := h.Keys.Written
	if h.HasMover == nil || !h.HasMover(upload.Spec.DataMover) {
		check = h.Keys.Signed
	}
	proven, err := check(ctx, operation.OfBackup, b.UID, upload)
	if err != nil || proven {
		return err
	}
	log.Error("the data of a volume is of no use: its DataUpload was changed, or no node agent has written its status",
		"dataUpload", upload.Name, "namespace", upload.Spec.SourceNamespace, "claim", upload.Spec.SourcePVC)
	upload.Status = velerov2alpha1.DataUploadStatus{LoadStatus: velerov1.LoadStatus{Phase: velerov1.LoadPhaseFailed}}
	return nil
}
