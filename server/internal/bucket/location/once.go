package location

import (
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/locks"
)

// WritesOnce reports whether each key of a location must be written only once, so that the files of a backup are staged
// until it is final.
func WritesOnce(location *velerov1.BackupStorageLocation) bool {
	return location.Annotations[velerov1.WriteOnceAnnotation] == "true" || locks.Keeps(location)
}
