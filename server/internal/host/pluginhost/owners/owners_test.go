//go:build linux

package owners

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOpenTakesTheWayOfTheKernel(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "a/b"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a/b/file"), []byte("x"), 0o600))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	for link, to := range map[string]string{
		"relative": "a/./b/file", "up": "a/b/../../a/b/file", "absolute": dir +
			"/a/b", "chain": "absolute/file", "round": "round", "broken": "nowhere",
	} {
		require.NoError(t, os.Symlink(to, filepath.Join(dir, link)))
	}
	tests := map[string]struct {
		path, way, holds, wrong string // below dir
	}{
		"a file":                    {path: "a/b/file", way: "a a/b a/b/file", holds: "a/b"},
		"a relative link":           {path: "relative", way: "relative a a/b a/b/file", holds: "a/b"},
		"a link that goes up":       {path: "up", way: "up a a/b a a/b a/b/file", holds: "a/b"},
		"an absolute link":          {path: "absolute/file", way: "absolute a a/b a/b/file", holds: "a/b"},
		"a link to a link":          {path: "chain", way: "chain absolute a a/b a/b/file", holds: "a/b"},
		"a link, and up from there": {path: "absolute/../b/file", way: "absolute a a/b a/b a/b/file", holds: "a/b"},
		"a path that is not clean":  {path: "./a//b/../b/file", way: "a a/b a/b a/b/file", holds: "a/b"},
		"a link to itself":          {path: "round", wrong: "too many levels of symbolic links"},
		"a broken link":             {path: "broken", wrong: "no such file or directory"},
		"nothing":                   {path: "a/nothing", wrong: "no such file or directory"},
		"a directory":               {path: "a/b", wrong: "is a directory"},
		"a directory by a way up":   {path: "a/b/..", wrong: "is a directory"},
		"a pipe":                    {path: "pipe", wrong: "it is not a regular file"},
		"a file as a directory":     {path: "a/b/file/x", wrong: "not a directory"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file, way, err := Open(dir + "/" + test.path)
			if test.wrong != "" {
				require.ErrorContains(t, err, test.wrong)
				return
			}
			require.NoError(t, err)
			defer file.Close()
			content := make([]byte, 1)
			_, err = file.Read(content)
			require.NoError(t, err)
			require.Equal(t, "x", string(content))
			require.Equal(t, "/", way[0].Path)
			var steps, holds []string
			for _, step := range way {
				below, err := filepath.Rel(dir, step.Path)
				require.NoError(t, err)
				if step.Holds && !slices.Contains(holds, below) {
					holds = append(holds, below)
				}
				if filepath.IsLocal(below) && below != "." {
					steps = append(steps, below)
				}
			}
			require.Equal(t, test.way, strings.Join(steps, " "))
			require.Equal(t, test.holds, strings.Join(holds, " "))
		})
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	us := os.Geteuid()
	other := us + 1
	tests := map[string]struct {
		step Step
		want string
	}{
		"of root":                 {step: Step{Mode: fs.ModeDir | 0o755}},
		"of this user":            {step: Step{Mode: 0o755, Owner: us}},
		"of nobody, as elsewhere": {step: Step{Mode: 0o755, Owner: Unknown}},
		"of another user":         {Step{Mode: 0o755, Owner: other}, "the file /p belongs to user"},
		"a link of another user":  {Step{Mode: fs.ModeSymlink | 0o777, Owner: other}, "the link /p belongs to user"},
		"a link":                  {step: Step{Mode: fs.ModeSymlink | 0o777}},
		"the group writes": {Step{Mode: 0o775},
			"others than its owner can change the file /p, its mode is -rwxrwxr-x; run \"chmod go-w /p\""},
		"all write": {Step{Mode: fs.ModeDir | 0o757}, "others than its owner can change the directory /p"},
		"as /tmp":   {step: Step{Mode: fs.ModeDir | fs.ModeSticky | 0o777}},
		"as /tmp, with the file in it": {Step{Mode: fs.ModeDir | fs.ModeSticky | 0o777, Holds: true},
			"others than its owner can change the directory /p"},
		"a file with the bit of /tmp": {Step{Mode: fs.ModeSticky | 0o777}, "others than its owner can change the file /p"},
		"as /tmp, but of another user": {Step{Mode: fs.ModeDir | fs.ModeSticky | 0o777, Owner: other},
			"the directory /p belongs to user"},
		"read-only, which is not asked":  {Step{Mode: 0o777, ReadOnly: true}, "others than its owner can change the file /p"},
		"the owner of the file may read": {step: Step{Mode: 0o400, Owner: us}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.step.Path = "/p"
			err := Way{{Path: "/", Mode: fs.ModeDir | 0o755}, test.step}.Check(nil)
			if test.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, test.want)
			require.NoError(t, Way{test.step}.Check(func(Step) bool { return true }))
		})
	}
}
