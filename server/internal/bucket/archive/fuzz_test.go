package archive

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzRewrite walks through arbitrary data and rewrites it. What can be rewritten can be walked through.
func FuzzRewrite(f *testing.F) {
	f.Add([]byte{}, true)
	f.Add(packTar(f, file{path: "metadata/version", body: "1.1.0\n"}, file{path: "resources/pods/namespaces/a/one.json",
		body: "{}"}), true)
	f.Add(packTar(f, file{path: "resources/pods/v1/namespaces/a/one.json"}), true)
	f.Add(packFiles(f, file{path: "resources/pods/cluster/one.json", body: "{}"}), false)
	f.Fuzz(func(t *testing.T, data []byte, isTar bool) {
		if isTar {
			data = pack(t, data)
		}
		limits := Limits{TotalBytes: 1 << 20, ItemBytes: 1 << 16, Items: 1000}
		walk := func(data []byte) error {
			return Walk(t.Context(), bytes.NewReader(data), limits, func(o Object) error {
				require.NotEmpty(t, o.Name)
				return nil
			})
		}
		valid := walk(data) == nil
		changes, err := NewChanges(t.TempDir())
		require.NoError(t, err)
		defer func() { require.NoError(t, changes.Close()) }()
		require.NoError(t, changes.Item(podsType, "v1", true, "a", "one", []byte("{}")))
		var out bytes.Buffer
		_, err = Rewrite(t.Context(), io.LimitReader(bytes.NewReader(data), 1<<20), &out, changes, when)
		if err == nil && valid {
			require.NoError(t, walk(out.Bytes()))
		}
	})
}

// FuzzSums compares an archive with arbitrary sums: each object is found, or has its sum.
func FuzzSums(f *testing.F) {
	packed, sums := summed(f, map[string]string{"a": "1", "b\n": "2"})
	f.Add(sums)
	f.Add(sums + sums)
	f.Add("\\" + sums)
	f.Fuzz(func(t *testing.T, text string) {
		found := 0
		read, err := CompareSums(t.Context(), bytes.NewReader(packed), opened(text), func(Object, Difference) { found++ })
		if err != nil {
			require.ErrorIs(t, err, ErrSums)
			require.Zero(t, read)
			return
		}
		require.Equal(t, 3, read)
		for line := range strings.SplitSeq(strings.TrimSuffix(sums, "\n"), "\n") {
			require.True(t, found > 0 || strings.Contains(text, line[len(line)-20:]))
		}
	})
}
