package podclaims_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/cleat-dev/cleat/framework/podclaims"
)

func TestNameIsThatOfTheClaimOfAVolume(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		source corev1.VolumeSource
		want   string
	}{
		"a claim": {corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{
			ClaimName: "data",
		}}, "data"},
		"generic ephemeral":  {corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}, "web-scratch"},
		"an empty directory": {corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, ""},
		"inline CSI":         {corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, row.want, podclaims.Name("web", &corev1.Volume{Name: "scratch", VolumeSource: row.source}))
		})
	}
}
