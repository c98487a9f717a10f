package operation_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
)

func TestDigestIdentifiesOperations(t *testing.T) {
	t.Parallel()
	one := operation.Operation{Action: "a", ID: "1", Item: framework.ResourceIdentifier{Resource: "pods",
		Namespace: "shop", Name: "p"}, Status: operation.Status{Phase: operation.New}}
	two := one
	two.ID, two.PostOperationItems = "2", []framework.ResourceIdentifier{{Resource: "configmaps", Namespace: "shop",
		Name: "c"}}
	all := []operation.Operation{two, one}
	want := operation.Digest(all)
	owner := &operation.Owner{Kind: operation.OfBackup, Name: "b", UID: "u"}

	later := []operation.Operation{one, two}
	later[0].Phase, later[0].Error, later[1].NCompleted = operation.Failed, "x", 3
	var stored bytes.Buffer
	zipped := gzip.NewWriter(&stored)
	require.NoError(t, json.NewEncoder(zipped).Encode(operation.NewFile(owner, later)))
	require.NoError(t, zipped.Close())
	plain, err := gzip.NewReader(&stored)
	require.NoError(t, err)
	var file operation.File
	require.NoError(t, json.NewDecoder(plain).Decode(&file))
	read, err := file.Operations(owner)
	require.NoError(t, err)
	require.Equal(t, want, operation.Digest(read), "what became of them does not matter")

	for name, change := range map[string]func(*operation.Operation){
		"id":     func(o *operation.Operation) { o.ID = "3" },
		"action": func(o *operation.Operation) { o.Action = "other" },
		"item":   func(o *operation.Operation) { o.Item.Name = "other" },
		"post": func(o *operation.Operation) {
			o.PostOperationItems = []framework.ResourceIdentifier{{Resource: "secrets", Namespace: "kube-system", Name: "s"}}
		},
	} {
		changed := []operation.Operation{one, two}
		change(&changed[1])
		require.NotEqual(t, want, operation.Digest(changed), name)
	}
	require.NotEqual(t, want, operation.Digest(all[:1]))
}
