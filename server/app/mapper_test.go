package app

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// counting answers with a mapping of its own for each call, and with an error while it is broken.
type counting struct {
	meta.RESTMapper
	calls  int
	broken error
}

func (c *counting) RESTMapping(schema.GroupKind, ...string) (*meta.RESTMapping, error) {
	c.calls++
	return &meta.RESTMapping{}, c.broken
}

func TestMapperRemembersKinds(t *testing.T) {
	t.Parallel()
	asked := &counting{broken: errors.New("not served yet")}
	m := &mapper{RESTMapper: asked}
	backup, restore := schema.GroupKind{Group: "velero.io", Kind: "Backup"}, schema.GroupKind{Group: "velero.io",
		Kind: "Restore"}
	_, err := m.RESTMapping(backup, "v1")
	require.Error(t, err)
	asked.broken = nil
	first, err := m.RESTMapping(backup, "v1")
	require.NoError(t, err)
	again, err := m.RESTMapping(backup, "v1")
	require.NoError(t, err)
	require.Same(t, first, again)
	require.Equal(t, 2, asked.calls, "errors are not remembered")

	for _, other := range []struct {
		kind     schema.GroupKind
		versions []string
	}{{backup, []string{"v2"}}, {restore, []string{"v1"}}, {backup, nil}, {backup, nil}, {backup, []string{"v1", "v2"}}} {
		before := asked.calls
		_, err := m.RESTMapping(other.kind, other.versions...)
		require.NoError(t, err)
		require.Equal(t, before+1, asked.calls, "%s %v", other.kind, other.versions)
	}
}
