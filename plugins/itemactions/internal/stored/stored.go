// Package stored gives restore item actions the snapshots of volumes that the backup has recorded in the bucket.
package stored

import (
	"encoding/json"
	"fmt"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// Of returns the snapshots that the backup has of the volumes of an item, see velerov1.StoredVolumesAnnotation.
// recorded is false if the backup, and therefore the server, has no such record.
func Of(r *velerov1.Restore) (snapshots map[string]string, recorded bool, err error) {
	text, recorded := r.Annotations[velerov1.StoredVolumesAnnotation]
	if recorded {
		err = json.Unmarshal([]byte(text), &snapshots)
	}
	if err != nil {
		err = fmt.Errorf("annotation %s of Restore %s: %w", velerov1.StoredVolumesAnnotation, r.Name, err)
	}
	return snapshots, recorded, err
}
