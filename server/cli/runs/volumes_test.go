package runs

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFilesAboutVolumes(t *testing.T) {
	t.Parallel()
	infos, err := decodeVolumes(strings.NewReader(`[{"pvcName":"data","skipped":true}]`))
	require.NoError(t, err)
	require.Equal(t, "data", infos[0].PVCName)
	_, err = decodeVolumes(strings.NewReader(`{"pvcName":1}`))
	require.ErrorContains(t, err, "decode its file about volumes: ")
	_, err = decodeVolumes(strings.NewReader(strings.Repeat(" ", mostOfVolumes+1)))
	require.EqualError(t, err, "its file about volumes has more than 67108864 bytes")
}

// FuzzVolumes decodes any file.
func FuzzVolumes(f *testing.F) {
	f.Add(`[{"pvcName":"data","pvcNamespace":"shop","backupMethod":"CSISnapshot","pvbInfo":{"podName":"p"}},null]`)
	f.Add(`null`)
	f.Fuzz(func(t *testing.T, text string) {
		infos, err := decodeVolumes(strings.NewReader(text))
		require.True(t, err == nil || infos == nil)
	})
}
