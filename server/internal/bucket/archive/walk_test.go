package archive

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestWalkPassesEachObjectInEachVersionOnce(t *testing.T) {
	t.Parallel()
	var paths, bodies []string
	walk := func(o Object) error {
		paths, bodies = append(paths, o.Path()), append(bodies, string(o.JSON))
		return nil
	}
	require.NoError(t, Walk(t.Context(), bytes.NewReader(before(t)), Limits{}, walk))
	require.Equal(t, []string{
		"resources/pods/namespaces/shop/a.json",
		"resources/widgets.example.io/namespaces/shop/w.json",
		"resources/widgets.example.io/v1/namespaces/shop/w.json",
		"resources/pods/namespaces/shop/b.json",
		"resources/persistentvolumeclaims/namespaces/shop/data.json",
	}, paths)
	require.Equal(t, []string{"pod a", "widget v2", "widget v1", "pod b", "claim"}, bodies)

	var found Object
	require.NoError(t, Walk(t.Context(), bytes.NewReader(packFiles(t,
		file{path: "metadata/version", body: "1.0.0\n"},
		file{path: "resources/README", body: "ignored"},
		file{path: "./resources/namespaces/cluster/shop.json", body: "{}"},
	)), Limits{}, func(o Object) error {
		require.Zero(t, found)
		found = o
		return nil
	}))
	require.Equal(t, Object{GroupResource: schema.GroupResource{Resource: "namespaces"}, Name: "shop", JSON: []byte("{}")},
		found)
}

func TestWalkReportsWhatIsWrong(t *testing.T) {
	t.Parallel()
	whole := before(t)
	for name, test := range map[string]struct {
		archive []byte
		limits  Limits
		want    error
		text    string
	}{
		"empty":     {want: ErrNotArchive, text: "it is empty"},
		"cut":       {archive: whole[:len(whole)-9], want: ErrTruncated},
		"not a tar": {archive: pack(t, []byte(strings.Repeat("x", 1024))), want: ErrNotArchive},
		"unsafe": {archive: packFiles(t, file{path: "resources/../../x", body: "x"}), want: ErrUnsafePath,
			text: `entry 1, "resources/../../x"`},
		"large": {archive: whole, limits: Limits{ItemBytes: 6}, want: ErrLimit,
			text: `"resources/widgets.example.io/namespaces/shop/w.json"`},
		"version 2": {archive: packFiles(t, file{path: "metadata/version", body: "2.0.0"}), want: ErrNotArchive,
			text: "want 1.x.y"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := Walk(t.Context(), bytes.NewReader(test.archive), test.limits, func(Object) error { return nil })
			require.ErrorIs(t, err, test.want)
			require.ErrorContains(t, err, test.text)
		})
	}
	stop := errors.New("enough")
	err := Walk(t.Context(), bytes.NewReader(whole), Limits{}, func(Object) error { return stop })
	require.ErrorIs(t, err, stop)
	require.ErrorContains(t, err, `entry 2, "resources/pods/namespaces/shop/a.json"`)
}
