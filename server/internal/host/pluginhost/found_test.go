//go:build linux

package pluginhost

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOpenedFileRunsAfterReplacement(t *testing.T) {
	t.Parallel()
	tests := map[string]func(t *testing.T, path string){
		"another file takes its path": func(t *testing.T, path string) {
			writeExecutable(t, path+".new", "#!/bin/false\n")
			require.NoError(t, os.Rename(path+".new", path))
		},
		"it is removed": func(t *testing.T, path string) { require.NoError(t, os.Remove(path)) },
		"its folder leads elsewhere": func(t *testing.T, path string) {
			folder := filepath.Dir(path)
			require.NoError(t, os.Rename(folder, folder+".old"))
			require.NoError(t, os.Symlink("/nowhere", folder))
		},
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newTestHost(t, pluginDir(t, "vendor/behave"), nil)
			action := h.behave(t)
			first := processOf(t, action)
			change(t, filepath.Join(h.dir, "vendor/behave"))
			require.NoError(t, syscall.Kill(first, syscall.SIGKILL))
			requireReaped(t, first)
			second := processOf(t, action)
			require.NotEqual(t, first, second, "it was started again")
			require.Equal(t, h.dir+"/vendor/behave", commandLine(t, second)[0])
		})
	}
}

func TestProcessHasNameOfItsFileAndNoForeignDescriptors(t *testing.T) {
	t.Parallel()
	dir := pluginDir(t, "a/behave", "b/behave", "c/behave")
	require.NoError(t, os.Remove(filepath.Join(dir, "b/behave")))
	real, err := buildMisbehave()
	require.NoError(t, err)
	script := fmt.Sprintf("#!/bin/sh\n[ -r \"$0\" ] || exit 7\nexec %s \"$@\"\n", real)
	writeExecutable(t, filepath.Join(dir, "b/script"), script)
	h := newTestHost(t, dir, nil)

	for _, from := range h.history.now().sources {
		require.NoError(t, from.supervisor.Ready(t.Context(), ""))
		pid := from.supervisor.State().PID
		comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		require.NoError(t, err)
		want := filepath.Base(from.command)
		if want == "script" {
			want = "misbehave" // the name after exec
		}
		require.Equal(t, want, strings.TrimSpace(string(comm)))

		var inherited []string
		descriptors, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		require.NoError(t, err)
		for _, descriptor := range descriptors {
			if to, err := os.Readlink(descriptor); err == nil && strings.HasPrefix(to, dir) {
				inherited = append(inherited, to)
			}
		}
		require.Equal(t, []string{from.command}, slices.Compact(inherited), "its own file and no other plugin's")
	}
}

// commandLine returns the arguments of a process.
func commandLine(t *testing.T, pid int) []string {
	t.Helper()
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	require.NoError(t, err)
	return strings.Split(string(line), "\x00")
}
