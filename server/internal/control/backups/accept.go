package backups

import (
	"context"
	"errors"
	"fmt"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/engine/backup"
	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
)

// checkAccepted returns what is wrong with the dry run that a backup accepts. It has to be there, and in the same
// location.
func (r *Controller) checkAccepted(ctx context.Context, b *velerov1.Backup) ([]string, error) {
	name, uid, accepts := velerov1.Accepts(b)
	switch {
	case !accepts:
		return nil, nil
	case velerov1.IsDryRun(b):
		return []string{"a dry run cannot accept another dry run: remove the annotation " + velerov1.AcceptAnnotation}, nil
	case name == "":
		return []string{fmt.Sprintf("annotation %s is %q, want NAME/UID of a dry run", velerov1.AcceptAnnotation,
			b.Annotations[velerov1.AcceptAnnotation])}, nil
	}
	if err := kubeapi.CheckName("annotation "+velerov1.AcceptAnnotation, name); err != nil {
		return []string{err.Error()}, nil
	}
	var accepted velerov1.Backup
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: b.Namespace, Name: name}, &accepted)
	switch {
	case apierrors.IsNotFound(err), err == nil && (accepted.UID != types.UID(uid) || accepted.DeletionTimestamp != nil):
		return []string{fmt.Sprintf("the dry run %s does not exist any more, make another one", name)}, nil
	case err != nil:
		return nil, fmt.Errorf("get the dry run %s: %w", name, err)
	case accepted.Annotations[velerov1.DryRunAnnotation] != velerov1.DryRunDone:
		return []string{fmt.Sprintf("the dry run %s has not been carried out, so it cannot be accepted", name)}, nil
	case accepted.Spec.StorageLocation != b.Spec.StorageLocation:
		return []string{fmt.Sprintf("the dry run %s is in backup storage location %s, and the backup in %s; they must be "+
			"in the same one",
			name, accepted.Spec.StorageLocation, b.Spec.StorageLocation)}, nil
	}
	return nil, nil
}

// accept reads the manifest of the dry run that the backup accepts; nil if it accepts none.
func (w *work) accept(objects *store.Store) (*backup.Accepted, error) {
	name, _, accepts := velerov1.Accepts(w.backup)
	if !accepts {
		return nil, nil
	}
	accepted, err := backup.NewAccepted(w.run.Ctx, func(ctx context.Context) (io.ReadCloser, error) {
		return objects.Artifact(ctx, name, manifest.FileName)
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil, fmt.Errorf("the manifest of the dry run %s does not exist any more, make another dry run: %w", name, err)
	}
	if err != nil {
		return nil, fmt.Errorf("read the manifest of the dry run %s: %w", name, err)
	}
	return accepted, nil
}
