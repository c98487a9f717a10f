package run

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/store"
)

// Stores opens the object storage of a location.
type Stores interface {
	Open(ctx context.Context, location *velerov1.BackupStorageLocation) (*store.Store, error)
}

// errNoLocation means that a BackupStorageLocation does not exist.
var ErrLocationNotFound = errors.New("the backup storage location does not exist")

// getLocation reads a BackupStorageLocation.
func (c *Cluster) GetLocation(ctx context.Context, name string) (*velerov1.BackupStorageLocation, error) {
	var location velerov1.BackupStorageLocation
	err := c.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: name}, &location)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("%w: %s/%s", ErrLocationNotFound, c.Namespace, name)
	}
	if err != nil {
		return nil, fmt.Errorf("get backup storage location %s: %w", name, err)
	}
	return &location, nil
}

// unavailable says why a location cannot be used, or nothing.
func LocationProblem(location *velerov1.BackupStorageLocation) string {
	switch location.Status.Phase {
	case velerov1.BackupStorageLocationPhaseAvailable:
		return ""
	case "":
		return fmt.Sprintf("backup storage location %s has not been validated yet; try again in a moment", location.Name)
	default:
		text := fmt.Sprintf("BackupStorageLocation %s is in %s status", location.Name, location.Status.Phase)
		if location.Status.Message != "" {
			text += ": " + location.Status.Message
		}
		return text
	}
}
