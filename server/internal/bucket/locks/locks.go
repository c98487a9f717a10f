package locks

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/versioning/objectstore"
)

// Of returns what the bucket of a location locks, as its annotation has it; nil if its object store does not tell.
func Of(location *velerov1.BackupStorageLocation) *objectstore.Locks {
	text := location.Annotations[velerov1.LocksAnnotation]
	if text == "" {
		return nil
	}
	found := new(objectstore.Locks)
	if json.Unmarshal([]byte(text), found) != nil {
		return nil // the next validation writes it again
	}
	return found
}

// Note writes to the annotation of a location what its bucket locks; nil for an object store that does not tell.
func Note(location *velerov1.BackupStorageLocation, found *objectstore.Locks) {
	if found == nil {
		delete(location.Annotations, velerov1.LocksAnnotation)
		return
	}
	text, _ := json.Marshal(found) // has no errors
	metav1.SetMetaDataAnnotation(&location.ObjectMeta, velerov1.LocksAnnotation, string(text))
}

// Keeps reports whether the bucket of a location keeps the files of backups, so that no key must be written twice.
func Keeps(location *velerov1.BackupStorageLocation) bool {
	found := Of(location)
	return found != nil && (found.Mode != "" || found.DefaultMode != "")
}

// Describe returns what a bucket locks and what that means for the ttl of backups.
func Describe(found *objectstore.Locks) string {
	const longer = ": a shorter ttl keeps files longer than that"
	switch {
	case found == nil:
		return "unknown, the object store does not tell"
	case found.Mode != "" && found.KeepFor > 0:
		return fmt.Sprintf("%s, for %s from the end of a backup", found.Mode, found.KeepFor) + longer + others(found)
	case found.Mode != "":
		return fmt.Sprintf("%s, until a backup expires", found.Mode) + others(found)
	case found.DefaultMode != "":
		return fmt.Sprintf("%s, for %s from each write, by the bucket", found.DefaultMode, found.DefaultFor) + longer
	case found.Lock == objectstore.Yes:
		return "nothing but what is held; config.objectLockMode locks files until backups expire"
	default:
		return "nothing"
	}
}

// others says what the bucket locks beside the files of backups.
func others(found *objectstore.Locks) string {
	if found.DefaultMode == "" {
		return ""
	}
	return fmt.Sprintf("; all other files, by the bucket: %s, for %s", found.DefaultMode, found.DefaultFor)
}
