package run

import (
	"testing"

	"github.com/stretchr/testify/require"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// FuzzMaintenance reads any annotation of a repository.
func FuzzMaintenance(f *testing.F) {
	f.Add(`{"job": "shop-default-kopia-maintain-1", "alone": true}`)
	f.Add(`null`)
	f.Fuzz(func(t *testing.T, text string) {
		of := new(velerov1.BackupRepository)
		of.Annotations = map[string]string{maintenanceAnnotation: text}
		if claim := MaintenanceOf(of); claim != nil {
			require.NotEmpty(t, claim.Job)
			require.NoError(t, SetMaintenance(of, claim))
			require.Equal(t, claim, MaintenanceOf(of))
		}
	})
}
