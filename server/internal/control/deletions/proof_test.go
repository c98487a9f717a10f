package deletions

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// TestProofOfFiles has backups of this cluster, of another one and of Velero, whose files are as they were or not.
func TestProofOfFiles(t *testing.T) {
	t.Parallel()
	const kind = velerov1.DownloadTargetKindBackupContents
	for name, test := range map[string]struct {
		annotations map[string]string
		stored      string // UID
		expired     bool
		digest      string
		holds, keep bool
	}{
		"as stored": {map[string]string{velerov1.FilesAnnotation: "BackupContents=a"}, "here", true, "a",
			true, true},
		"replaced": {map[string]string{velerov1.FilesAnnotation: "BackupContents=a"}, "here", true, "b",
			false, true},
		"replaced, and requested": {map[string]string{velerov1.FilesAnnotation: "BackupContents=a"}, "here", false, "b",
			false, false},
		"of a run that stored none": {map[string]string{velerov1.FilesAnnotation: ""}, "here", true, "b", false, true},
		"no file": {map[string]string{velerov1.FilesAnnotation: "BackupContents="}, "here", true, "",
			false, true},
		"brought":               {nil, "there", true, "a", false, true},
		"brought without a UID": {nil, "", true, "a", false, true},
		"made by Velero":        {nil, "here", true, "a", true, true},
		"brought, and a user wants": {map[string]string{velerov1.DeleteSnapshotsAnnotation: "true"}, "there", false, "a",
			true, false},
		"brought, and a user spares": {map[string]string{velerov1.DeleteSnapshotsAnnotation: "false"}, "there", false, "a",
			false, true},
		"Velero's, and spared": {map[string]string{velerov1.DeleteSnapshotsAnnotation: "false"}, "here", false, "a",
			false, true},
		"brought, and nonsense": {map[string]string{velerov1.DeleteSnapshotsAnnotation: "perhaps"}, "there", false, "a",
			false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var request velerov1.DeleteBackupRequest
			if test.expired {
				request.Annotations = map[string]string{velerov1.ExpiredAnnotation: "2026-03-04T12:00:00Z"}
			}
			var backup, stored velerov1.Backup
			backup.Name, backup.UID, backup.Annotations = "b", "here", test.annotations
			stored.UID = types.UID(test.stored)
			p := proofOf(&request, &backup, &stored)
			require.Equal(t, test.holds, p.Holds(kind, test.digest))
			require.Equal(t, test.keep, p.keep)
			if !p.any {
				want := stored.UID
				if want == "" {
					want = backup.UID
				}
				require.Equal(t, map[string]string{"backup": "b", "backup-uid": string(want)}, p.Tags())
			}
		})
	}
	require.Equal(t, "a, b", describeHeld([]string{"b", "a", "b"}))
	require.True(t, strings.HasSuffix(describeHeld(strings.Split("abcdefghijklm", "")), "j and 3 more"))
}
