package archive

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var configMaps = schema.GroupResource{Resource: "configmaps"}

// summed returns an archive with objects of the type configmaps in namespace n, by their names, and its sums as text.
func summed(t testing.TB, objects map[string]string) (packed []byte, sums string) {
	t.Helper()
	kept, err := NewSums(t.TempDir())
	require.NoError(t, err)
	defer kept.Close()
	var out bytes.Buffer
	w, err := NewWriter(&out, when)
	require.NoError(t, err)
	w.SumInto(kept)
	for _, name := range slices.Sorted(maps.Keys(objects)) {
		require.NoError(t, w.Item(configMaps, "v1", true, "n", name, []byte(objects[name])))
	}
	require.NoError(t, w.Item(schema.GroupResource{Group: "apps", Resource: "deployments"}, "v1beta1", false, "n", "web",
		[]byte("{}")))
	require.NoError(t, w.Close())
	return out.Bytes(), textOf(t, kept)
}

func textOf(t testing.TB, sums *Sums) string {
	t.Helper()
	content, err := sums.Content()
	require.NoError(t, err)
	plain, err := gzip.NewReader(content)
	require.NoError(t, err)
	text, err := io.ReadAll(plain)
	require.NoError(t, err)
	return string(text)
}

func opened(sums string) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(sums)), nil }
}

func TestSumsOfWriterAreThoseOfItsArchive(t *testing.T) {
	t.Parallel()
	packed, sums := summed(t, map[string]string{"a": "1", "b\\\nc": "2"})
	read, err := NewSums("")
	require.NoError(t, err)
	defer read.Close()
	require.NoError(t, Sum(t.Context(), bytes.NewReader(packed), read))
	require.Equal(t, sums, textOf(t, read))
	require.Len(t, strings.Split(strings.TrimSpace(sums), "\n"), 5)
	n, err := CompareSums(t.Context(), bytes.NewReader(packed), opened(sums), func(o Object, how Difference) {
		require.Fail(t, "different", "%s %v", o.Path(), how)
	})
	require.NoError(t, err)
	require.Equal(t, 3, n)
}

// TestSumsAreThoseOfSha256sum has sha256sum check the files of an archive, as people can.
func TestSumsAreThoseOfSha256sum(t *testing.T) {
	t.Parallel()
	packed, sums := summed(t, map[string]string{"a": "1", "b\\\nc": "2"})
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "sums"), []byte(sums), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.tar.gz"), packed, 0o600))
	for _, command := range [][]string{{"tar", "xzf", "a.tar.gz"}, {"sha256sum", "--check", "--strict", "sums"}} {
		run := exec.CommandContext(t.Context(), command[0], command[1:]...)
		run.Dir = dir
		out, err := run.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
}

func TestCompareSums(t *testing.T) {
	t.Parallel()
	before := map[string]string{"a": "1", "b": "2", "c": "3"}
	_, sums := summed(t, before)
	for name, tt := range map[string]struct {
		after map[string]string
		want  []string
	}{
		"same":    {before, nil},
		"changed": {map[string]string{"a": "1", "b": "x", "c": "3"}, []string{"0 b"}},
		"missing": {map[string]string{"a": "1", "c": "3"}, []string{"1 b"}},
		"added":   {map[string]string{"a": "1", "b": "2", "c": "3", "d": "4"}, []string{"2 d"}},
		"all at once": {map[string]string{"a": "x", "aa": "2", "b": "3"},
			[]string{"0 a", "2 aa", "0 b", "1 c"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			packed, _ := summed(t, tt.after)
			var found []string
			n, err := CompareSums(t.Context(), bytes.NewReader(packed), opened(sums), func(o Object, how Difference) {
				require.Equal(t, configMaps, o.GroupResource)
				found = append(found, fmt.Sprintf("%d %s", how, o.Name))
			})
			require.NoError(t, err)
			require.Equal(t, tt.want, found)
			require.Equal(t, len(tt.after)+1, n)
		})
	}
}

// TestCompareSumsOfOneEntry changes one of the two entries of an object, which is found once.
func TestCompareSumsOfOneEntry(t *testing.T) {
	t.Parallel()
	packed, sums := summed(t, map[string]string{"a": "1"})
	line, rest, _ := strings.Cut(sums, "\n")
	var found []string
	add := func(o Object, how Difference) { found = append(found, fmt.Sprintf("%d %s", how, o.Path())) }
	_, err := CompareSums(t.Context(), bytes.NewReader(packed), opened(strings.Repeat("0", 64)+line[64:]+"\n"+rest), add)
	require.NoError(t, err)
	require.Equal(t, []string{"0 resources/configmaps/namespaces/n/a.json"}, found)
}

func TestCompareSumsOfADamagedArchive(t *testing.T) {
	t.Parallel()
	packed, sums := summed(t, map[string]string{"a": "1", "b": "2"})
	missing := 0
	_, err := CompareSums(t.Context(), bytes.NewReader(packed[:len(packed)/2]), opened(sums),
		func(_ Object, how Difference) {
			require.Equal(t, Missing, how)
			missing++
		})
	require.True(t, IsDamage(err), "%v", err)
	require.NotZero(t, missing, "what cannot be read is found")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the end"))
	_, err = CompareSums(ctx, bytes.NewReader(packed), opened(sums), func(Object, Difference) {})
	require.ErrorContains(t, err, "the end")
}

func TestCompareSumsRefusesOtherSums(t *testing.T) {
	t.Parallel()
	packed, _ := summed(t, map[string]string{"a": "1"})
	sum := strings.Repeat("0a", 32)
	for text, want := range map[string]string{
		"x":  "line 1: want a SHA-256 sum, two spaces and a path",
		sum:  "line 1: want a SHA-256 sum, two spaces",
		"\n": "line 1: want a SHA-256 sum",
		sum + "  resources/configmaps/namespaces/n/a.json\n" + sum + "  ../x":   `line 2: "../x" is not the path of an object`,
		strings.Repeat("0x", 32) + "  resources/configmaps/namespaces/n/a.json": "line 1: want a SHA-256 sum: ",
		strings.Repeat("0", 5000): "after line 0: ",
	} {
		_, err := CompareSums(t.Context(), bytes.NewReader(packed), opened(text), func(Object, Difference) {})
		require.ErrorIs(t, err, ErrSums, text)
		require.ErrorContains(t, err, want)
	}
	_, err := CompareSums(t.Context(), bytes.NewReader(packed), func() (io.ReadCloser, error) {
		return nil, errors.New("no bucket")
	}, func(Object, Difference) {})
	require.ErrorIs(t, err, ErrSums)
	require.ErrorContains(t, err, "no bucket")
}
