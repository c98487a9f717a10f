package node

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// newGroups returns what looks like the groups of a machine, with files of a hierarchy each, or of the only one.
func newGroups(t *testing.T, files map[string]string, hierarchies ...string) cgroups {
	t.Helper()
	root := t.TempDir()
	for _, hierarchy := range hierarchies {
		require.NoError(t, os.MkdirAll(filepath.Join(root, hierarchy), 0o755))
		for name, content := range files {
			require.NoError(t, os.WriteFile(filepath.Join(root, hierarchy, name), []byte(content), 0o600))
		}
	}
	return cgroups{root}
}

func TestEnableControllersOfVersion2(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, available, enabled, want, wrong string }{
		{name: "none enabled", available: "cpuset cpu io memory hugetlb pids rdma",
			want: "+cpu +cpuset +memory +pids +hugetlb +io"},
		{name: "some enabled", available: "cpuset cpu io memory hugetlb pids", enabled: "memory pids",
			want: "+cpu +cpuset +hugetlb +io"},
		{name: "all enabled", available: "cpuset cpu memory pids", enabled: "cpu cpuset memory pids\n",
			want: "cpu cpuset memory pids\n"},
		{name: "without optional ones", available: "cpuset cpu memory pids", want: "+cpu +cpuset +memory +pids"},
		{name: "delegated in part", available: "memory pids", wrong: `no controller cpu, only ["memory" "pids"]`},
	} {
		c := newGroups(t, map[string]string{"cgroup.controllers": test.available, "cgroup.subtree_control": test.enabled},
			".")
		require.True(t, c.isV2(), test.name)
		err := c.add("a" + groupSuffix)
		if test.wrong != "" {
			require.ErrorContains(t, err, test.wrong, test.name)
			continue
		}
		require.NoError(t, err, test.name)
		text, err := os.ReadFile(filepath.Join(c.root, "cgroup.subtree_control"))
		require.NoError(t, err)
		require.Equal(t, test.want, string(text), test.name)
		require.DirExists(t, filepath.Join(c.root, "a"+groupSuffix), test.name)
	}
}

func TestSweepRemovesGroupsOfEndedNodes(t *testing.T) {
	t.Parallel()
	v1 := newGroups(t, map[string]string{"cgroup.procs": "", "cpuset.cpus": "0-1", "cpuset.mems": "0"},
		append(controllersV1, "systemd")...)
	v2 := newGroups(t, map[string]string{"cgroup.controllers": "cpu cpuset memory pids",
		"cgroup.subtree_control": "cpu cpuset memory pids"}, ".")
	all := map[string]cgroups{"version 1": v1, "version 2": v2}
	parent := machineGroups().root
	if !machineGroups().isV2() {
		parent = filepath.Join(parent, "unified") // as systemd mounts it beside version 1
	}
	if kernel := (cgroups{filepath.Join(parent, t.Name())}); os.Mkdir(kernel.root, 0o755) == nil {
		t.Cleanup(func() { require.NoError(t, removeTree(kernel.root)) })
		all["those of the kernel"] = kernel
	}
	for name, c := range all {
		hierarchies := []string{"."}
		if !c.isV2() {
			hierarchies = slices.Concat(controllersV1, []string{"systemd"})
		}
		if name == "those of the kernel" { // which has its controllers in version 1
			require.NoError(t, hold(c.locked("alive"+groupSuffix)), name)
		} else {
			require.NoError(t, c.add("alive"+groupSuffix), name)
		}
		if !c.isV2() { // the kernel removes the files of a group with it
			for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
				require.NoError(t, os.Remove(filepath.Join(c.root, "cpuset", "alive"+groupSuffix, file)))
			}
		}
		for _, hierarchy := range hierarchies {
			require.NoError(t, os.MkdirAll(filepath.Join(c.root, hierarchy, "dead"+groupSuffix, "kubepods", "pod"), 0o755), name)
			require.NoError(t, os.MkdirAll(filepath.Join(c.root, hierarchy, "other", "pod"), 0o755), name)
		}
		if len(hierarchies) > 1 { // by one who was killed
			require.NoError(t, os.MkdirAll(filepath.Join(c.root, "cpu", "half"+groupSuffix), 0o755), name)
		}
		require.NoError(t, c.sweep(), name)
		for _, hierarchy := range hierarchies {
			require.DirExists(t, filepath.Join(c.root, hierarchy, "alive"+groupSuffix), name)
			require.NoDirExists(t, filepath.Join(c.root, hierarchy, "dead"+groupSuffix), name)
			require.NoDirExists(t, filepath.Join(c.root, hierarchy, "half"+groupSuffix), name)
			require.DirExists(t, filepath.Join(c.root, hierarchy, "other"), name)
		}
		require.NoError(t, c.remove("alive"+groupSuffix), name)
		require.NoDirExists(t, c.locked("alive"+groupSuffix), name)
	}
}
