package kopia_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	dmv1 "github.com/cleat-dev/cleat/framework/datamover/v1"
	kopiarepository "github.com/cleat-dev/cleat/plugins/kopia/internal/repository"
	"github.com/cleat-dev/cleat/server/test/velero"
)

// TestAcceptVolumes_KopiaOfVelero proves that Velero's own library restores, continues, maintains and forgets what the
// mover has stored, with its snapshot as the parent, and the other way round, whichever of them has made the repository.
func TestAcceptVolumes_KopiaOfVelero(t *testing.T) {
	t.Parallel()
	program := velero.Get(t).Uploader
	for _, creator := range []string{"cleat", "velero"} {
		t.Run("repository of "+creator, func(t *testing.T) {
			t.Parallel()
			m, r, state := mover(t), directory(t), t.TempDir()
			veleros := func(action string, args ...string) string {
				cmd := exec.CommandContext(t.Context(), program, append([]string{action, folder(r), state}, args...)...)
				var log strings.Builder
				cmd.Stderr = &log
				out, err := cmd.Output()
				require.NoError(t, err, "%s: %s", action, &log)
				return strings.TrimSpace(string(out))
			}
			if creator == "velero" {
				veleros("create")
			}
			checked, err := m.Check(t.Context(), &dmv1.CheckInput{Repository: r, Create: true})
			require.NoError(t, err)
			require.Equal(t, creator == "cleat", checked.Created)

			volume, theirs, ours := t.TempDir(), t.TempDir(), t.TempDir()
			write(t, volume, map[string]string{"a/b": random(3 << 20), "c": strings.Repeat("compressible", 10_000), "d/e/f": ""})
			require.NoError(t, os.Symlink("c", filepath.Join(volume, "link")))
			require.NoError(t, os.Chmod(filepath.Join(volume, "c"), 0o640))
			first := backup(t, m, r, "load-1", volume)
			veleros("restore", theirs, first.SnapshotID)
			require.Equal(t, withoutTimes(described(t, volume)), withoutTimes(described(t, theirs)))

			write(t, volume, map[string]string{"new": "of Velero"})
			second := veleros("backup", volume)
			one, err := kopiarepository.Snapshot(t.Context(), opened(t, r), second)
			require.NoError(t, err)
			require.Positive(t, one.Stats.CachedFiles, "the snapshot of the mover is the parent")
			restore(t, m, r, second, ours)
			require.Equal(t, described(t, volume), described(t, ours))
			third := backup(t, m, r, "load-2", volume)
			require.Less(t, third.NewBytes, int64(1<<20))

			veleros("maintain")
			_, err = m.Maintain(t.Context(), &dmv1.MaintainInput{Repository: r})
			require.NoError(t, err)
			veleros("forget", "-", first.SnapshotID)
			_, err = m.Forget(t.Context(), &dmv1.ForgetInput{Repository: r, SnapshotIDs: []string{second}})
			require.NoError(t, err)
			_, err = m.Check(t.Context(), &dmv1.CheckInput{Repository: r, Depth: dmv1.Data})
			require.NoError(t, err)
			left := snapshots(t, r)
			require.Len(t, left, 1)
			require.EqualValues(t, third.SnapshotID, left[0].ID)
		})
	}
}

// withoutTimes returns descriptions without the times of directories, which are lost when Velero restores, and of links,
// which it rounds.
func withoutTimes(of map[string]string) map[string]string {
	for path, text := range of {
		if fields := strings.Fields(text); text[0] == 'd' || text[0] == 'L' {
			of[path] = strings.Join(append(fields[:2], fields[3:]...), " ")
		}
	}
	return of
}
