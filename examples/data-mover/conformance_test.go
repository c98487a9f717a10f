package main_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework/conformance"
)

// The rules start many operations on the same claims, concurrently. None may fail for this reason: backups read a
// volume that does not change, and restores write to an empty volume.
func TestConformance(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.controller("--transfers=8")
	s.fill("conformance", "full", 50)
	full, err := s.claim("conformance", "full").MarshalJSON()
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Join(s.volumes, "conformance", "empty"), 0o755))
	backup := s.backUp(s.claim("conformance", "empty"), "backup")
	backup.untilCompleted()
	empty, err := backup.item.MarshalJSON()
	require.NoError(t, err)
	conformance.Test(t, conformance.Binary(s.binary), conformance.WithKubeconfig(s.cluster.Kubeconfig),
		conformance.WithLeakCalls(40),
		conformance.WithEnvironment("CLEAT_DATA_MOVER_NAMESPACE="+s.namespace), conformance.WithItem(full),
		conformance.WithItem(empty))
}
