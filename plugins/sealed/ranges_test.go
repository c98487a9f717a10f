package sealed

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework"
	objectstorev1 "github.com/cleat-dev/cleat/framework/objectstore/v1"
)

// counting is a store that counts what is read from it.
type counting struct {
	objectstorev1.ObjectStore
	whole bool // it has no ranges
	calls int
	asked int64 // the sum of the lengths of ranges
}

func (c *counting) GetObject(
	ctx context.Context, input *objectstorev1.GetObjectInput,
) (*objectstorev1.GetObjectOutput, error) {
	c.calls++
	changed := *input
	if input.Range != nil {
		c.asked += input.Range.Length
	}
	if c.whole {
		changed.Range = nil
	}
	return c.ObjectStore.GetObject(ctx, &changed)
}

// TestRangesAreReadByRanges reads parts of an object: of what is stored, only what they need is read.
func TestRangesAreReadByRanges(t *testing.T) {
	t.Parallel()
	of := newKey(t)
	config := Config{Recipients: of.public, FrontConfig: objectstorev1.FrontConfig{SecretFile: keyFile(t, of)}}
	behind, dir := files(t)
	for _, size := range []int64{0, 1, 64 << 10, 64<<10 + 1, 3 << 20} {
		content := strings.Repeat("0123456789abcdef", int(size/16)) + strings.Repeat("x", int(size%16))
		put(t, sealedBy(t, behind, config), "object", content)
		for _, asked := range []objectstorev1.Range{
			{}, {Offset: -1}, {Offset: -100}, {Offset: -10 << 20}, {Length: 1}, {Offset: 5, Length: 20},
			{Offset: 64<<10 - 3, Length: 7}, {Offset: 1 << 20, Length: 600 << 10}, {Offset: size - 1, Length: 5},
			{Offset: size + 3},
		} {
			name := fmt.Sprintf("%d bytes, %+v", size, asked)
			counted := &counting{ObjectStore: behind}
			output, err := sealedBy(t, counted, config).GetObject(t.Context(),
				&objectstorev1.GetObjectInput{Bucket: "bucket", Key: "object", Range: &asked})
			require.NoError(t, err, name)
			offset, length := asked.In(size)
			require.Equal(t, &objectstorev1.Part{Offset: offset, Size: size}, output.Part, name)
			read, err := readAll(output)
			require.NoError(t, err, name)
			require.Equal(t, content[offset:offset+length], read, name)
			require.Less(t, counted.asked, length+4*windowSize, name)
		}
	}

	// A store without ranges sends the whole object.
	without := sealedBy(t, &counting{ObjectStore: behind, whole: true}, config)
	output, err := without.GetObject(t.Context(), &objectstorev1.GetObjectInput{Bucket: "bucket", Key: "object",
		Range: &objectstorev1.Range{Offset: -5}})
	require.NoError(t, err)
	require.Nil(t, output.Part)
	read, err := readAll(output)
	require.NoError(t, err)
	require.Len(t, read, 3<<20)

	// What was changed is found, in the part that is read.
	path := filepath.Join(dir, "object")
	good, err := os.ReadFile(path)
	require.NoError(t, err)
	for name, bad := range map[string][]byte{
		"cut": good[:len(good)-1], "cut to chunks": good[:len(good)-(3<<20)%(64<<10)-2*(64<<10+16)], "empty": {},
		"longer": append(good[:len(good):len(good)], 0), "plain": []byte("plain"),
		"flipped": append(append(good[:700<<10:700<<10], good[700<<10]^1), good[700<<10+1:]...),
	} {
		require.NoError(t, os.WriteFile(path, bad, 0o600))
		output, err := sealedBy(t, behind, config).GetObject(t.Context(), &objectstorev1.GetObjectInput{Bucket: "bucket",
			Key: "object", Range: &objectstorev1.Range{Offset: 600 << 10, Length: 200 << 10}})
		if err == nil {
			_, err = readAll(output)
		}
		require.ErrorIs(t, err, framework.ErrInvalid, name)
		require.ErrorContains(t, err, "unseal object in bucket", name)
	}
}
