package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
)

// Cluster is the access of the controllers to the API server.
type Cluster struct {
	client.Client               // reads from the cache, writes to the API server
	Live          client.Reader // reads from the API server
	Namespace     string        // the server's namespace, the only one in the cache
}

// Stores opens the object storage of a location. Its errors name the location.
type Stores interface {
	Open(ctx context.Context, location *velerov1.BackupStorageLocation) (*store.Store, error)
}

// ErrLocationNotFound is returned for a BackupStorageLocation that does not exist.
var ErrLocationNotFound = errors.New("the backup storage location does not exist")

// ErrLocationAway is returned for a backup, restore or deletion that has begun and cannot continue while its location
// is not available.
var ErrLocationAway = errors.New("the backup storage location is not available")

// WaitDelay is the time between two checks of the condition for which a backup, restore or deletion waits.
const WaitDelay = 5 * time.Second

// GetLocation reads a BackupStorageLocation. The error wraps ErrLocationNotFound if it does not exist or its name is
// invalid. If it is not in the cache, GetLocation reads from the API server, because it may have been created just
// before the backup that names it.
func (c *Cluster) GetLocation(ctx context.Context, name string) (*velerov1.BackupStorageLocation, error) {
	if err := kubeapi.CheckName("the name of a backup storage location", name); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrLocationNotFound, err)
	}
	var location velerov1.BackupStorageLocation
	key := client.ObjectKey{Namespace: c.Namespace, Name: name}
	err := c.Get(ctx, key, &location)
	if apierrors.IsNotFound(err) {
		err = c.Live.Get(ctx, key, &location)
	}
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("%w: %s/%s", ErrLocationNotFound, c.Namespace, name)
	}
	if err != nil {
		return nil, fmt.Errorf("get backup storage location %s: %w", name, err)
	}
	return &location, nil
}

// DefaultLocation returns the name of the location of backups that name none: the newest location that is marked as
// the default, or fallback if none is marked.
func DefaultLocation(locations []velerov1.BackupStorageLocation, fallback string) string {
	var newest *velerov1.BackupStorageLocation
	for i := range locations {
		l := &locations[i]
		if l.Spec.Default && (newest == nil ||
			cmp.Or(l.CreationTimestamp.Compare(newest.CreationTimestamp.Time), cmp.Compare(l.Name, newest.Name)) > 0) {
			newest = l
		}
	}
	if newest == nil {
		return fallback
	}
	return newest.Name
}

// LocationProblem returns why a location cannot be used, or "" if it can.
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

// ReadOnly reports whether a location is read-only. Nothing may then be stored or deleted there, except the files of
// restores.
func ReadOnly(location *velerov1.BackupStorageLocation) bool {
	return location.Spec.AccessMode == velerov1.BackupStorageLocationAccessModeReadOnly
}

// Timestamp returns t as the API server stores it, in whole seconds.
func Timestamp(t time.Time) *metav1.Time {
	return new(metav1.NewTime(t.Truncate(time.Second)))
}
