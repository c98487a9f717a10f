package itemlist

import (
	"errors"
	"iter"
	"testing"

	"github.com/stretchr/testify/require"

	manifestwriter "github.com/cleat-dev/cleat/framework/manifestwriter/v1"
	"github.com/cleat-dev/cleat/framework/plugintest"
)

func items(all []manifestwriter.Item, end error) iter.Seq2[*manifestwriter.Item, error] {
	return func(yield func(*manifestwriter.Item, error) bool) {
		for i := range all {
			if !yield(&all[i], nil) {
				return
			}
		}
		if end != nil {
			yield(nil, end)
		}
	}
}

var web = manifestwriter.Item{
	Group: "apps", Version: "v1", Resource: "deployments", Kind: "Deployment", Namespace: "shop", Name: "web", UID: "u-1",
	Labels: map[string]string{"app": "<web>"}, Annotations: map[string]string{"large": "yes"},
}

func TestEveryItemIsALine(t *testing.T) {
	t.Parallel()
	for labels, want := range map[bool]string{
		false: `{"group":"apps","version":"v1","resource":"deployments","kind":"Deployment","namespace":"shop","name":"web","uid":"u-1"}
{"version":"v1","resource":"nodes","kind":"Node","name":"n1"}
`,
		true: `{"group":"apps","version":"v1","resource":"deployments","kind":"Deployment","namespace":"shop","name":"web","uid":"u-1","labels":{"app":"<web>"}}
{"version":"v1","resource":"nodes","kind":"Node","name":"n1"}
`,
	} {
		written := plugintest.Artifacts{}
		require.NoError(t, writer{config{Labels: labels}}.Write(t.Context(), &manifestwriter.WriteInput{
			Artifacts: written,
			Items:     items([]manifestwriter.Item{web, {Version: "v1", Resource: "nodes", Kind: "Node", Name: "n1"}}, nil),
		}))
		require.Equal(t, want, written[Artifact].String())
	}
}

func TestAbandonedBackupIsAnError(t *testing.T) {
	t.Parallel()
	gone := errors.New("the backup was given up")
	require.ErrorIs(t, writer{}.Write(t.Context(),
		&manifestwriter.WriteInput{Items: items([]manifestwriter.Item{web}, gone), Artifacts: plugintest.Artifacts{}}), gone)
}

func TestBackupWithoutItemsHasEmptyFile(t *testing.T) {
	t.Parallel()
	written := plugintest.Artifacts{}
	require.NoError(t, writer{}.Write(t.Context(), &manifestwriter.WriteInput{Items: items(nil, nil), Artifacts: written}))
	require.Empty(t, written[Artifact].String())
}
