package verify_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/bucket/trust"
	"github.com/cleat-dev/cleat/server/internal/bucket/verify"
)

// zeros is a content without an end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// large is a bucket whose archive has size bytes.
type large struct {
	*bucket
	size int64
}

func (l large) GetObject(ctx context.Context, bucket, key string) (io.ReadCloser, error) {
	if key == "backups/b/b.tar.gz" {
		return io.NopCloser(io.LimitReader(zeros{}, l.size)), nil
	}
	return l.bucket.GetObject(ctx, bucket, key)
}

// TestMemoryIsThatOfOneBuffer compares what the verification of two archives allocates in all.
func TestMemoryIsThatOfOneBuffer(t *testing.T) { //nolint:paralleltest // what other tests allocate would be counted
	allocated := func(size int64) uint64 {
		objects := large{&bucket{objects: files(t)}, size}
		sum := sha256.New()
		_, err := io.CopyN(sum, zeros{}, size)
		require.NoError(t, err)
		d := &trust.Document{
			Format: trust.Version, Backup: trust.Backup{Name: "b", UID: "u"}, Signed: noon,
			Files: []trust.File{{Name: "b.tar.gz", Size: size, SHA256: hex.EncodeToString(sum.Sum(nil))}},
		}
		for _, name := range []string{store.MetadataFile, "b-logs.gz", "b-resource-list.json.gz"} {
			content := objects.objects["backups/b/"+name]
			d.Files = append(d.Files, trust.File{Name: name, Size: int64(len(content)), SHA256: sumOf(content)})
		}
		objects.objects["backups/b/b-"+store.ChecksumsFile], err = d.Encode()
		require.NoError(t, err)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		report, err := verify.Run(t.Context(), verify.Request{Objects: store.New(objects, "bucket", ""), Backup: "b",
			Depth: velerov1.VerifyFiles, Now: noon})
		runtime.ReadMemStats(&after)
		require.NoError(t, err)
		require.Empty(t, report.Findings)
		require.Greater(t, report.Bytes, size)
		return after.TotalAlloc - before.TotalAlloc
	}
	small := allocated(1 << 20)
	require.Less(t, allocated(256<<20), small+64<<10)
}
