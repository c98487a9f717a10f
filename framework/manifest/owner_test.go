package manifest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAddOwner(t *testing.T) {
	t.Parallel()
	item := &Item{Namespace: "shop"}
	item.AddOwner("apps/v1", "ReplicaSet", "web", "u1", true)
	item.AddOwner("v1", "Node", "n1", "", false)
	require.Equal(t, []string{"u1"}, item.OwnerUIDs)
	require.Equal(t, []Edge{
		{
			Type: Controller, Strict: true, Path: "metadata.ownerReferences",
			To: Ref{Group: "apps", Kind: "ReplicaSet", Namespace: "shop", Name: "web", UID: "u1"},
		},
		{Type: Owner, Path: "metadata.ownerReferences", To: Ref{Kind: "Node", Namespace: "shop", Name: "n1"}},
	}, item.Edges)
}
