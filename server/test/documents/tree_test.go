package documents_test

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// mostBytes is the maximum size of a file of the tree, for readers; framework/api.export is the largest one.
const mostBytes = 2 << 20

// TestNoProgramIsInTheTree checks the files that git tracks: a program that was built by hand and committed stays in
// the history.
func TestNoProgramIsInTheTree(t *testing.T) {
	t.Parallel()
	git := func(args ...string) string {
		out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", root}, args...)...).Output()
		if err != nil {
			t.Skipf("this is no checkout: git %s: %v", strings.Join(args, " "), err)
		}
		return string(out)
	}
	index := strings.TrimSpace(git("rev-parse", "--path-format=absolute", "--git-path", "index"))
	_, err := os.Stat(index) // go runs the test again when the index has changed
	require.NoError(t, err)
	tracked := strings.Split(strings.TrimSuffix(git("ls-files", "-z"), "\x00"), "\x00")
	require.Contains(t, tracked, "go.mod")
	for _, name := range tracked {
		if reason := unwanted(t, filepath.Join(root, filepath.FromSlash(name))); reason != "" {
			t.Errorf("%s %s: git rm --cached %s, and add it to .gitignore", name, reason, name)
		}
	}
}

// unwanted returns the reason why a file must not be tracked, or "" if it may be.
func unwanted(t *testing.T, path string) string {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return "" // it is about to be removed, or is a link
	}
	if info.Size() > mostBytes {
		return "has more than 2 MiB"
	}
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	start := make([]byte, 8)
	n, err := io.ReadFull(file, start)
	if err != nil && n < 4 {
		return ""
	}
	for _, magic := range []string{"\x7fELF", "\xcf\xfa\xed\xfe", "\xca\xfe\xba\xbe", "MZ\x90\x00", "!<arch>\n",
		"\x00asm"} {
		// of Linux, macOS, Windows, archives, WebAssembly
		if bytes.HasPrefix(start, []byte(magic)) {
			return "is a built program or library"
		}
	}
	return ""
}

func TestProgramsAreRecognized(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	content, err := os.ReadFile(self)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "file")
	for want, text := range map[string][]byte{
		"":                              []byte("package main\n"),
		"has more than 2 MiB":           bytes.Repeat([]byte("x"), mostBytes+1),
		"is a built program or library": content[:1000],
	} {
		require.NoError(t, os.WriteFile(path, text, 0o600))
		require.Equal(t, want, unwanted(t, path))
	}
}
