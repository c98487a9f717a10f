package operations_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/operations"
)

func TestIDDependsOnRunnerAndKey(t *testing.T) {
	t.Parallel()
	id := operations.ID("example.io/mover", "k")
	require.Regexp(t, `^op-[0-9a-f]{32}$`, id)
	require.Equal(t, id, operations.ID("example.io/mover", "k"))
	for _, other := range []string{operations.ID("example.io/mover", "l"), operations.ID("example.io/move", "rk"),
		operations.ID("", "")} {
		require.NotEqual(t, id, other)
	}
}

func TestKeyIdentifiesItemOfBackup(t *testing.T) {
	t.Parallel()
	backup := func(name, uid string) *velerov1.Backup {
		b := &velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: "velero", Name: name}}
		b.SetUID("")
		if uid != "" {
			b.UID = "u-1"
		}
		return b
	}
	item := func(version, kind, namespace, name string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": version, "kind": kind, "metadata": map[string]any{"namespace": namespace, "name": name},
		}}
	}
	web := item("apps/v1", "Deployment", "shop", "web")
	require.Equal(t, "u-1/Deployment.apps/shop/web", operations.Key(backup("a", "u-1"), web))
	require.Equal(t, "velero/a/Deployment.apps/shop/web", operations.Key(backup("a", ""), web))
	require.Equal(t, operations.Key(backup("a", ""), web),
		operations.Key(backup("a", ""), item("apps/v1beta1", "Deployment", "shop", "web")))
	require.Equal(t, "u-1/Node//n", operations.Key(backup("a", "u-1"), item("v1", "Node", "", "n")))
}

// FuzzDecode checks that whatever can be decoded is encoded again unchanged, and that nothing makes Decode panic.
func FuzzDecode(f *testing.F) {
	a := operation("a")
	a.Progress.Started = time.Unix(1_700_000_000, 5).UTC()
	good, err := operations.Encode(a)
	require.NoError(f, err)
	f.Add(good)
	f.Add([]byte(`{}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, content []byte) {
		first, err := operations.Decode(content)
		if err != nil {
			return
		}
		again, err := operations.Encode(first)
		require.NoError(t, err)
		second, err := operations.Decode(again)
		require.NoError(t, err)
		third, err := operations.Encode(second)
		require.NoError(t, err)
		require.Equal(t, string(again), string(third))
		require.Equal(t, operations.ID(first.Runner, first.Key), first.ID)
	})
}

// FuzzDecodeFile checks that no content of a file makes a Dir panic or return an operation with another ID.
func FuzzDecodeFile(f *testing.F) {
	a := operation("a")
	content, err := operations.Encode(a)
	require.NoError(f, err)
	f.Add([]byte(`{"version":1,"operation":` + string(content) + `}`))
	f.Add([]byte(`{"version":-1,"operation":` + string(content) + `}`))
	f.Add([]byte(`{"version":1,"operation":null}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		got, err := operations.DecodeFileForTest(a.ID, content)
		if err != nil {
			require.Nil(t, got)
			return
		}
		require.Equal(t, a.ID, got.ID)
		require.NotEmpty(t, got.Version)
	})
}
