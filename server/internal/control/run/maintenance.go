package run

import (
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// maintenanceAnnotation of a BackupRepository is the claim of its maintenance.
const maintenanceAnnotation = "cleat.dev/maintenance"

// WaitsForMaintenance is the message of a load that is InProgress and waits, because its repository is maintained. The
// data of such a load is not being moved.
const WaitsForMaintenance = "waiting until the repository is maintained"

// Maintenance is the claim of the maintenance of a repository. The server writes it before the maintenance begins, and
// removes it with the result.
type Maintenance struct {
	Job     string    `json:"job"` // its name
	Since   time.Time `json:"since"`
	Renewed time.Time `json:"renewed"` // by the server that leads
	// Alone is set if no load of the repository may be moved meanwhile: no load begins, and the maintenance begins when
	// none is moved any more.
	Alone bool `json:"alone,omitempty"`
}

// MaintenanceOf returns the claim on a repository, nil if there is none. A claim that nobody can read is none.
func MaintenanceOf(of *velerov1.BackupRepository) *Maintenance {
	text := of.Annotations[maintenanceAnnotation]
	if text == "" {
		return nil
	}
	claim := new(Maintenance)
	if json.Unmarshal([]byte(text), claim) != nil || claim.Job == "" {
		return nil
	}
	return claim
}

// SetMaintenance writes the claim into the annotations of a repository; nil removes it.
func SetMaintenance(of *velerov1.BackupRepository, claim *Maintenance) error {
	if claim == nil {
		delete(of.Annotations, maintenanceAnnotation)
		return nil
	}
	text, err := json.Marshal(claim)
	if err == nil {
		metav1.SetMetaDataAnnotation(&of.ObjectMeta, maintenanceAnnotation, string(text))
	}
	return err
}
