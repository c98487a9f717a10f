package restic_test

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	dmv1 "github.com/cleat-dev/cleat/framework/datamover/v1"
	"github.com/cleat-dev/cleat/framework/plugintest"
	"github.com/cleat-dev/cleat/plugins/restic"
	"github.com/cleat-dev/cleat/server/test/controlplane"
	"github.com/cleat-dev/cleat/server/test/programs"
)

var plane = controlplane.Shared{Common: true}

func TestMain(m *testing.M) {
	code := plane.Main(m)
	if empty.dir != "" {
		_ = os.RemoveAll(empty.dir)
	}
	os.Exit(code)
}

// password is that of all repositories, Velero's default.
const password = "static-passw0rd"

// mover returns the mover with a cache of its own.
func mover(t *testing.T, configure ...func(*restic.Config)) dmv1.DataMover {
	t.Helper()
	config := restic.Defaults()
	config.Program, config.CacheDirectory = programs.Restic(t), t.TempDir()
	for _, change := range configure {
		change(&config)
	}
	return plugintest.Run(t, restic.Register()).DataMoverV1(restic.Name, plugintest.WithConfig(config))
}

// directory returns the repository "restic/shop" in a location that is a directory. It does not exist yet.
func directory(t *testing.T) dmv1.Repository {
	t.Helper()
	root := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(root, "backups"), 0o750))
	return dmv1.Repository{
		Provider: "cleat.dev/file", Config: map[string]string{"path": root, "bucket": "backups", "prefix": "velero"},
		Path: "restic/shop", Password: []byte(password),
	}
}

// folder returns where the files of a repository of directory are.
func folder(r dmv1.Repository) string {
	return filepath.Join(r.Config["path"], r.Config["bucket"], r.Config["prefix"], r.Path)
}

// empty is a repository without snapshots: restic takes seconds to make one, for the strength of its key.
var empty struct {
	once sync.Once
	dir  string
	err  error
}

// repository returns an empty repository in a directory.
func repository(t *testing.T) dmv1.Repository {
	t.Helper()
	program := programs.Restic(t)
	empty.once.Do(func() {
		if empty.dir, empty.err = os.MkdirTemp("", "cleat-restic-test-"); empty.err != nil {
			return
		}
		_, empty.err = command(program, empty.dir, "init")
	})
	require.NoError(t, empty.err)
	made := directory(t)
	require.NoError(t, os.CopyFS(folder(made), os.DirFS(empty.dir)))
	return made
}

// command runs restic as a user does, on a repository in a directory.
func command(program, repository string, args ...string) (string, error) {
	cmd := exec.Command(program, append([]string{"--repo", repository, "--no-cache"}, args...)...)
	cmd.Env = append(os.Environ(), "RESTIC_PASSWORD="+password)
	output, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("restic %s: %w: %s", strings.Join(args, " "), err, output)
	}
	return string(output), nil
}

// snapshot is a snapshot as restic lists it.
type snapshot struct {
	ID       string
	Parent   string
	Paths    []string
	Hostname string
	Tags     []string
}

// snapshots lists those of a repository in a directory.
func snapshots(t *testing.T, r dmv1.Repository) []snapshot {
	t.Helper()
	listed, err := command(programs.Restic(t), folder(r), "snapshots", "--json", "--no-lock")
	require.NoError(t, err)
	var all []snapshot
	require.NoError(t, json.Unmarshal([]byte(listed), &all))
	return all
}

// backup backs up a directory.
func backup(t *testing.T, m dmv1.DataMover, r dmv1.Repository, key, dir string) *dmv1.BackupOutput {
	t.Helper()
	output, err := m.Backup(t.Context(), &dmv1.BackupInput{Repository: r, Key: key, Volume: dmv1.Volume{Path: dir}})
	require.NoError(t, err)
	return output
}

// write writes files below a directory.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o750))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	}
}

// random returns bytes that do not compress.
func random(size int) string {
	content := make([]byte, size)
	_, _ = rand.Read(content) // never fails
	return string(content)
}

// read returns the content of a file.
func read(t *testing.T, path ...string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(path...))
	require.NoError(t, err)
	return string(content)
}
