package v1_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	v1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

func TestTargetNamespaceMapsNamespacesOnly(t *testing.T) {
	t.Parallel()
	spec := v1.RestoreSpec{NamespaceMapping: map[string]string{"shop": "yard", "": "all"}}
	for namespace, want := range map[string]string{"shop": "yard", "bank": "bank", "": ""} {
		require.Equal(t, want, spec.TargetNamespace(namespace))
	}
}
