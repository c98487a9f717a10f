package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestModuleFilesPinPrograms(t *testing.T) {
	t.Parallel()
	list, err := pinnedPrograms()
	require.NoError(t, err)
	versions := map[string]string{}
	for _, p := range list {
		versions[p.name] = p.version
		if p.name != progEtcd { // whose source has its version
			require.Contains(t, p.stamp("v1.2.3"), "v1.2.3")
		}
	}
	require.Equal(t, map[string]string{
		progEtcd: "v3.7.3", progAPIServer: "v1.36.3", progKCM: "v1.36.3", progS3: "v1.8.0", progScheduler: "v1.36.3",
		progKubelet:            "v1.36.3",
		progSnapshotController: "v8.7.0", progSnapshotter: "v8.7.0", progProvisioner: "v6.3.0",
	}, versions)
}

func TestRequiredVersionReadsGoMod(t *testing.T) {
	t.Parallel()
	const mod = "module m\n\nreplace a.b/c => d v9.9.9\n\nrequire a.b/c v1.2.3 // indirect\n\nrequire (\n\ta.b/d " +
		"v0.1.0\n)\n"
	for module, want := range map[string]string{"a.b/c": "v1.2.3", "a.b/d": "v0.1.0"} {
		got, err := requiredVersion(mod, module)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := requiredVersion(mod, "a.b")
	require.ErrorContains(t, err, "a.b is not required")
}

// fakeGo puts a go command on the PATH that runs script, in which $out is the file
// to build, and sets up an empty cache. It returns the path of a list of calls.
func fakeGo(t *testing.T, script string) (calls string) {
	t.Helper()
	dir := t.TempDir()
	calls = filepath.Join(dir, "calls")
	text := `#!/bin/sh
while [ "$1" != -o ]; do shift; done
out=$2
test "$GOFLAGS" = -mod=readonly && test -s go.mod && test -s go.sum || exit 9
echo "$3" >>` + calls + "\n" + script
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go"), []byte(text), 0o755))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "cache"))
	t.Setenv("HOME", dir)
	t.Setenv("GOFLAGS", "-mod=mod")
	return calls
}

const buildOne = `echo "go: downloading a v1" >&2; echo pkg >&2; mkdir -p "$(dirname "$out")"; echo '#!' >"$out"; chmod +x "$out"`

func TestConcurrentCallsBuildProgramsOnce(t *testing.T) {
	t.Setenv("KUBEBUILDER_ASSETS", "")
	calls := fakeGo(t, buildOne)
	var logs [5]bytes.Buffer
	var all sync.WaitGroup
	for i := range logs {
		all.Go(func() {
			paths, err := ensurePrograms(t.Context(), &logs[i])
			if err == nil && len(paths) != 9 {
				t.Errorf("want 9 paths, got %v", paths)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	built, err := os.ReadFile(calls)
	require.NoError(t, err)
	require.Len(t, strings.Fields(string(built)), 9, "%s", built)
	var together string
	for i := range logs {
		together += logs[i].String()
	}
	for _, line := range []string{
		"[1/9] building etcd v3.7.3\n",
		"[4/9] building kube-controller-manager v1.36.3: done, 1 modules downloaded, 1 packages compiled, ",
	} {
		require.Equal(t, 1, strings.Count(together, line), "%q in\n%s", line, together)
	}
}

func TestFailedBuildIsReportedAndLeavesNoFiles(t *testing.T) {
	t.Setenv("KUBEBUILDER_ASSETS", "")
	fakeGo(t, `echo "disk full" >&2; exit 1`)
	var log bytes.Buffer
	_, err := ensurePrograms(t.Context(), &log)
	require.ErrorContains(t, err, "building etcd v3.7.3")
	require.ErrorContains(t, err, "disk full")
	require.Contains(t, log.String(), "failed, ")
	root, err := cacheRoot()
	require.NoError(t, err)
	left, err := filepath.Glob(filepath.Join(root, "*"))
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join(root, "build.lock")}, left)
	hidden, err := filepath.Glob(filepath.Join(root, ".*"))
	require.NoError(t, err)
	require.Empty(t, hidden)
}

func TestAssetsAreUsedAndOtherProgramsAreBuilt(t *testing.T) {
	calls := fakeGo(t, buildOne)
	dir := t.TempDir()
	t.Setenv("KUBEBUILDER_ASSETS", dir)
	_, err := ensurePrograms(t.Context(), &bytes.Buffer{})
	require.ErrorContains(t, err, "has no executable etcd")

	for _, name := range []string{progEtcd, progAPIServer} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o755))
	}
	paths, err := ensurePrograms(t.Context(), &bytes.Buffer{})
	require.NoError(t, err)
	require.Equal(t, filepath.Join(dir, progEtcd), paths[progEtcd])
	require.Equal(t, filepath.Join(dir, progAPIServer), paths[progAPIServer])
	built, err := os.ReadFile(calls)
	require.NoError(t, err)
	require.Equal(t, []string{
		"github.com/versity/versitygw/cmd/versitygw", "k8s.io/kubernetes/cmd/kube-controller-manager",
		"k8s.io/kubernetes/cmd/kube-scheduler", "k8s.io/kubernetes/cmd/kubelet",
		"github.com/kubernetes-csi/external-snapshotter/v8/cmd/snapshot-controller",
		"github.com/kubernetes-csi/external-snapshotter/v8/cmd/csi-snapshotter",
		"github.com/kubernetes-csi/external-provisioner/v6/cmd/csi-provisioner",
	}, strings.Fields(string(built)))
}
