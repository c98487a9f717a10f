package manifest

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// sameJSON requires that an item is encoded as encoding/json does.
func sameJSON(t *testing.T, item *Item) {
	t.Helper()
	var reference bytes.Buffer
	require.NoError(t, encoder(&reference).Encode(item))
	require.Equal(t, reference.String(), string(appendItem(nil, item))+"\n")
}

func TestItemIsEncodedAsEncodingJSONDoes(t *testing.T) {
	t.Parallel()
	of := &Ref{Group: "apps", Resource: "deployments", Kind: "Deployment", Namespace: "shop", Name: "web", UID: "u"}
	whole := &Item{
		APIGroup: "apps", APIVersion: "v1", Resource: "replicasets", ItemKind: "ReplicaSet", Namespace: "shop", Name: "web-1",
		UID:    "v",
		Labels: map[string]string{"b": "<2>", "a": "1", "c": ""}, Annotations: map[string]string{
			"text": "line\nnext \"quoted\" \\ \u2028 é \x01",
		},
		OwnerUIDs: []string{"u", "w"},
		Edges: []Edge{
			{Type: Controller, Strict: true, To: *of, Path: "metadata.ownerReferences[0]"}, {Type: Action, To: Ref{Name: "x"},
				Plugin: "example.io/p"}, {Type: More},
		},
		Included: Inclusion{By: ByAction, Plugin: "example.io/p", Of: of},
	}
	for _, item := range []*Item{whole, {}, {Name: "only"}, {Included: Inclusion{Plugin: "p"}},
		{Labels: map[string]string{}, Edges: []Edge{}}} {
		sameJSON(t, item)
	}
}

func FuzzItemIsEncodedAsEncodingJSONDoes(f *testing.F) {
	f.Add("name", "key", "value", true)
	f.Add("\xff\x00", "\u2029", "</script>", false)
	f.Fuzz(func(t *testing.T, name, key, value string, strict bool) {
		sameJSON(t, &Item{
			Name: name, Labels: map[string]string{key: value}, OwnerUIDs: []string{value},
			Edges: []Edge{{Strict: strict, To: Ref{Name: key}}}, Included: Inclusion{By: name, Of: &Ref{Name: value}},
		})
	})
}
