package volumes

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/go-hclog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	velerov2alpha1 "github.com/cleat-dev/cleat/framework/api/velero/v2alpha1"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
)

// podVolumeBackups returns the PodVolumeBackups of a backup, sorted by name.
func (h *Hub) podVolumeBackups(
	ctx context.Context, b *velerov1.Backup, log hclog.Logger,
) ([]velerov1.PodVolumeBackup, error) {
	var list velerov1.PodVolumeBackupList
	if err := h.listOf(ctx, b, &list); err != nil {
		return nil, err
	}
	slices.SortFunc(list.Items, func(a, b velerov1.PodVolumeBackup) int { return strings.Compare(a.Name, b.Name) })
	return written(ctx, h, b, list.Items, log)
}

// dataUploads returns the DataUploads of a backup.
func (h *Hub) dataUploads(
	ctx context.Context, b *velerov1.Backup, log hclog.Logger,
) ([]velerov2alpha1.DataUpload, error) {
	var list velerov2alpha1.DataUploadList
	if err := h.listOf(ctx, b, &list); err != nil {
		return nil, err
	}
	return written(ctx, h, b, list.Items, log)
}

// listOf lists the loads with the label of a backup.
func (h *Hub) listOf(ctx context.Context, b *velerov1.Backup, list client.ObjectList) error {
	err := h.Live.List(ctx, list, client.InNamespace(b.Namespace),
		client.MatchingLabels{velerov1.BackupUIDLabel: string(b.UID)})
	if err != nil {
		return fmt.Errorf("list the loads of the backup: %w", err)
	}
	return nil
}

// written returns those of some loads that the backup has created and whose status node agents have written. Whoever
// may create a load could otherwise have it restored, and any snapshot removed.
func written[T any, P interface {
	*T
	metav1.Object
}](ctx context.Context, h *Hub, b *velerov1.Backup, loads []T, log hclog.Logger) (proven []T, err error) {
	for i := range loads {
		load := P(&loads[i])
		switch ok, err := h.Keys.Written(ctx, operation.OfBackup, b.UID, load); {
		case err != nil:
			return nil, err
		case ok:
			proven = append(proven, loads[i])
		default:
			log.Warn("a load with the label of the backup is left out: it was not created by the backup, or no node agent has "+
				"written its status", "kind", fmt.Sprintf("%T", loads[i]), "name", load.GetName())
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
