package itemlist

import (
	"bytes"
	"errors"
	"io"
	"iter"
	"testing"

	"github.com/stretchr/testify/require"

	manifestwriter "github.com/cleat-dev/cleat/framework/manifestwriter/v1"
)

// output keeps what is written.
type output map[string]*bytes.Buffer

func (o output) Create(name string) (io.Writer, error) {
	o[name] = &bytes.Buffer{}
	return o[name], nil
}

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
	for config, want := range map[string]string{
		"": `{"group":"apps","version":"v1","resource":"deployments","kind":"Deployment","namespace":"shop","name":"web","uid":"u-1"}
{"version":"v1","resource":"nodes","kind":"Node","name":"n1"}
`,
		`{"labels":true}`: `{"group":"apps","version":"v1","resource":"deployments","kind":"Deployment","namespace":"shop","name":"web","uid":"u-1","labels":{"app":"<web>"}}
{"version":"v1","resource":"nodes","kind":"Node","name":"n1"}
`,
	} {
		written := output{}
		require.NoError(t, writer{}.Write(t.Context(), &manifestwriter.Input{
			Config: []byte(config),
			Items:  items([]manifestwriter.Item{web, {Version: "v1", Resource: "nodes", Kind: "Node", Name: "n1"}}, nil),
		}, written))
		require.Equal(t, want, written[Artifact].String())
	}
}

func TestABackupThatWasGivenUpIsAnError(t *testing.T) {
	t.Parallel()
	gone := errors.New("the backup was given up")
	require.ErrorIs(t, writer{}.Write(t.Context(), &manifestwriter.Input{Items: items([]manifestwriter.Item{web}, gone)}, output{}), gone)
}

func TestABackupWithoutItemsHasAnEmptyFile(t *testing.T) {
	t.Parallel()
	written := output{}
	require.NoError(t, writer{}.Write(t.Context(), &manifestwriter.Input{Items: items(nil, nil)}, written))
	require.Empty(t, written[Artifact].String())
}
