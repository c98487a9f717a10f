package runs

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/engine/volumes"
	"github.com/cleat-dev/cleat/server/internal/kube/foreign"
)

// endless is a file of spaces without an end, which counts what is read of it.
type endless struct{ read int64 }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	e.read += int64(len(p))
	return len(p), nil
}

// TestFilesAreDecodedWithinLimits reads the files that descriptions and pages show.
func TestFilesAreDecodedWithinLimits(t *testing.T) {
	t.Parallel()
	pages := NewDownloads(time.Second)
	for _, kind := range []velerov1.DownloadTargetKind{velerov1.DownloadTargetKindBackupResults,
		velerov1.DownloadTargetKindBackupResourceList, velerov1.DownloadTargetKindBackupItemOperations,
		velerov1.DownloadTargetKindBackupVolumeInfos, velerov1.DownloadTargetKindRestoreVolumeInfo} {
		limits := pages.limitsOf(kind)
		require.LessOrEqual(t, limits.Bytes, int64(mostInPage))
		require.Positive(t, limits.Values)
		require.GreaterOrEqual(t, (&Downloads{}).limitsOf(kind).Bytes, limits.Bytes, "the commands show as much")
		limits.Bytes = 1 << 20 // a test that reads less
		file := &endless{}
		_, err := decode[map[string][]string](file, limits)
		require.ErrorIs(t, err, foreign.ErrInvalid)
		require.ErrorContains(t, err, "larger than the limit")
		require.Less(t, file.read, 2*limits.Bytes)
		limits.Values = 3
		_, err = decode[map[string][]string](strings.NewReader(`{"v1/Pod":["a","b","c"]}`), limits)
		require.ErrorContains(t, err, "more than 3 values")
	}
	limits := pages.limitsOf(velerov1.DownloadTargetKindBackupVolumeInfos)
	infos, err := decode[[]volumes.VolumeInfo](strings.NewReader(`[{"pvcName":"data","skipped":true}]`), limits)
	require.NoError(t, err)
	require.Equal(t, "data", infos[0].PVCName)
	infos, err = decode[[]volumes.VolumeInfo](strings.NewReader(" null\n"), limits)
	require.NoError(t, err)
	require.Empty(t, infos)
	_, err = decode[[]volumes.VolumeInfo](strings.NewReader(`{"pvcName":1}`), limits)
	require.ErrorIs(t, err, foreign.ErrInvalid)
}

// FuzzVolumes decodes any file.
func FuzzVolumes(f *testing.F) {
	f.Add(`[{"pvcName":"data","pvcNamespace":"shop","backupMethod":"CSISnapshot","pvbInfo":{"podName":"p"}},null]`)
	f.Add(`null`)
	f.Fuzz(func(t *testing.T, text string) {
		limits := NewDownloads(time.Second).limitsOf(velerov1.DownloadTargetKindBackupVolumeInfos)
		infos, err := decode[[]volumes.VolumeInfo](strings.NewReader(text), limits)
		require.True(t, err == nil || infos == nil)
	})
}
