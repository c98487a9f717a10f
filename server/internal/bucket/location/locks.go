package location

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/versioning/objectstore"
)

// LocksOf returns what the bucket of a location locks, as its annotation has it; nil if its object store does not tell.
func LocksOf(location *velerov1.BackupStorageLocation) *objectstore.Locks {
	text := location.Annotations[velerov1.LocksAnnotation]
	if text == "" {
		return nil
	}
	locks := new(objectstore.Locks)
	if json.Unmarshal([]byte(text), locks) != nil {
		return nil // the next validation writes it again
	}
	return locks
}

// locksFiles reports whether the bucket of a location keeps the files of backups, so that no key must be written twice.
func locksFiles(location *velerov1.BackupStorageLocation) bool {
	locks := LocksOf(location)
	return locks != nil && (locks.Mode != "" || locks.DefaultMode != "")
}

// DescribeLocks returns what a bucket locks and what that means for backups, for people.
func DescribeLocks(locks *objectstore.Locks) string {
	switch {
	case locks == nil:
		return "the object store does not tell"
	case locks.Mode != "" && locks.KeepFor > 0:
		return fmt.Sprintf("%s, for %s from the end of a backup: a shorter ttl keeps files longer", locks.Mode,
			locks.KeepFor) + describeDefault(locks)
	case locks.Mode != "":
		return fmt.Sprintf("%s, until a backup expires", locks.Mode) + describeDefault(locks)
	case locks.DefaultMode != "":
		return fmt.Sprintf("%s, for %s from each write, by the bucket: a shorter ttl keeps files longer", locks.DefaultMode,
			locks.DefaultFor)
	case locks.Lock == "yes":
		return "nothing but what is held; config.objectLockMode has files locked until backups expire"
	default:
		return "nothing"
	}
}

// describeDefault says what the bucket does beside the object store.
func describeDefault(locks *objectstore.Locks) string {
	if locks.DefaultMode == "" {
		return ""
	}
	return fmt.Sprintf("; files of other kinds, by the bucket: %s, for %s", locks.DefaultMode, locks.DefaultFor)
}

// KeptAtLeast returns for how long the bucket of a location keeps a backup whatever its ttl is; 0 for not at all.
func KeptAtLeast(location *velerov1.BackupStorageLocation) time.Duration {
	locks := LocksOf(location)
	if locks == nil {
		return 0
	}
	return cmp.Or(locks.KeepFor, locks.DefaultFor)
}

// noteLocks asks what the bucket of a location locks, and writes that to the annotation, which the caller stores.
func noteLocks(ctx context.Context, location *velerov1.BackupStorageLocation, opened *store.Store) error {
	locks, err := opened.Locks(ctx)
	if errors.Is(err, errors.ErrUnsupported) {
		delete(location.Annotations, velerov1.LocksAnnotation)
		return nil
	}
	if err != nil {
		return err
	}
	text, err := json.Marshal(locks)
	if err != nil {
		return err
	}
	metav1.SetMetaDataAnnotation(&location.ObjectMeta, velerov1.LocksAnnotation, string(text))
	return nil
}
