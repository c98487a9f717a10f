package archive

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestReadObject(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	w, err := NewWriter(&out, time.Unix(0, 0))
	require.NoError(t, err)
	apps := schema.GroupResource{Group: "apps", Resource: "deployments"}
	require.NoError(t, w.Item(apps, "v1", true, "shop", "web", []byte(`{"a":1}`)))
	require.NoError(t, w.Item(schema.GroupResource{Resource: "nodes"}, "v1", true, "", "one", []byte(`{"b":2}`)))
	require.NoError(t, w.Close())
	for name, tt := range map[string]struct {
		wanted Entry
		most   int64
		want   string
		err    error
	}{
		"namespaced":        {Entry{apps, "shop", "web"}, 7, `{"a":1}`, nil},
		"cluster-scoped":    {Entry{schema.GroupResource{Resource: "nodes"}, "", "one"}, 100, `{"b":2}`, nil},
		"another namespace": {Entry{apps, "other", "web"}, 100, "", nil},
		"another group":     {Entry{schema.GroupResource{Resource: "deployments"}, "shop", "web"}, 100, "", nil},
		"large":             {Entry{apps, "shop", "web"}, 6, "", ErrLimit},
	} {
		content, err := ReadObject(t.Context(), bytes.NewReader(out.Bytes()), tt.wanted, tt.most)
		require.ErrorIs(t, err, tt.err, name)
		require.Equal(t, tt.want, string(content), name)
	}
	_, err = ReadObject(t.Context(), bytes.NewReader(out.Bytes()[:20]), Entry{}, 1)
	require.True(t, IsDamage(err), err)
}
