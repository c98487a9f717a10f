package install_test

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/test/site"
	"github.com/cleat-dev/cleat/server/test/velero"
)

// TestAcceptInstall_VelerosClientWithoutSignedURLs reads all files of backups and restores with Velero's client from
// the server, because the object store cannot sign URLs. The output of this client contains its JSON output.
func TestAcceptInstall_VelerosClientWithoutSignedURLs(t *testing.T) {
	t.Parallel()
	programs := velero.Get(t)
	s := site.New(t, "cleat.dev/file")
	v := &velero.Site{Programs: programs, Kubeconfig: s.Kubeconfig, Namespace: s.Namespace, WorkDir: t.TempDir()}
	address := site.FreeAddress(t)
	s.Serve("--download-address", address, "--download-url", "http://"+address+"/files")
	s.Available()
	shop, file := s.Workload(2), filepath.Join(t.TempDir(), "b.tar.gz")
	s.Must("backup", "create", "b", "--include-namespaces", shop, "--wait", "--labels", "a=b", "--ordered-resources",
		"pods="+shop+"/x")
	_, _, err := s.Run("backup", "create", "partial", "--include-namespaces", shop+",none", "--wait")
	require.ErrorContains(t, err, "exit status 1", "there is no such namespace")
	s.Must("restore", "create", "r", "--from-backup", "b", "--wait")
	run := func(args ...string) string {
		t.Helper()
		out, err := v.Run(t.Context(), args...)
		require.NoError(t, err, out)
		return out
	}
	require.Contains(t, run("backup", "logs", "b"), "backup started")
	require.Contains(t, run("restore", "logs", "r"), "restore started")
	require.Contains(t, run("backup", "download", "b", "--output", file), "successfully downloaded")
	require.Contains(t, site.Unpacked(t, file), "metadata/version")
	require.Contains(t, run("restore", "describe", "r", "--details"), "CSI Snapshot Restores: <none included>")
	for _, command := range [][]string{
		{"backup", "describe", "b", "-o", "json"}, {"describe", "backup", "b", "-o", "json", "--details"}, {"backup",
			"describe", "partial", "-o", "json"},
	} {
		var theirs, ours map[string]any
		require.NoError(t, json.Unmarshal([]byte(run(command...)), &theirs))
		require.NoError(t, json.Unmarshal([]byte(s.Must(command...)), &ours))
		require.NotContains(t, ours, "problems")
		requireIn(t, theirs, ours, "")
	}
}

// requireIn checks that each value of a document is in another one.
func requireIn(t *testing.T, part, whole any, path string) {
	t.Helper()
	fields, ok := part.(map[string]any)
	if !ok {
		require.Equal(t, part, whole, path)
		return
	}
	all, ok := whole.(map[string]any)
	require.True(t, ok, "%s is %v", path, whole)
	for key, value := range fields {
		require.Contains(t, all, key, path)
		requireIn(t, value, all[key], path+"."+key)
	}
}
