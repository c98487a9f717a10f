package wire_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework/internal/wire"
)

func TestItemIsPreservedOnTheWire(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{
		`{"apiVersion":"v1","kind":"Pod"}`,
		`{"apiVersion":"x/v1","kind":"K","spec":{"big":9007199254740993,"half":0.5,"html":"<a&b>","list":[1,null,{}],"none":null}}`,
		`{"apiVersion":"v1","items":[{"apiVersion":"v1","kind":"Pod"}],"kind":"List"}`,
	} {
		item, err := wire.DecodeItem("item", []byte(raw))
		require.NoError(t, err)
		encoded, err := wire.EncodeUpdated(item, nil)
		require.NoError(t, err)
		require.Equal(t, raw, string(encoded))
	}
}

func TestInvalidItemIsRefused(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{"", "null", "[]", `"x"`, "{", `{}`, `{"apiVersion":"v1"}`, `{"kind":5}`} {
		_, err := wire.DecodeItem("itemFromBackup", []byte(raw))
		require.ErrorContains(t, err, "decode itemFromBackup of the request: ", "%q", raw)
	}
}

func TestNilUpdatedItemReturnsRequestsItem(t *testing.T) {
	t.Parallel()
	encoded, err := wire.EncodeUpdated(nil, []byte(` {"kind" : "as it came"}`))
	require.NoError(t, err)
	require.Equal(t, ` {"kind" : "as it came"}`, string(encoded))
}

func TestErrorForUpdatedItemThatIsNotJSON(t *testing.T) {
	t.Parallel()
	_, err := wire.EncodeUpdated(&unstructured.Unstructured{Object: map[string]any{"a": func() {}}}, nil)
	require.ErrorContains(t, err, "encode the updated item")
}
