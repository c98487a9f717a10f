// Package programs builds the programs that tests start: the command, and plugins. A program is linked once for all
// packages and all runs: it stays in the user's cache directory until its source changes.
package programs

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// built holds the result of each build of this process, by the path of the package. A package-level variable, because
// the tests of a process share the programs.
var built = struct {
	sync.Mutex
	programs map[string]func() (string, error)
}{programs: map[string]func() (string, error){}}

// Build returns the path of the program in pkg, a directory relative to the root of this module. The caller must not
// change the file: other tests run it as well. Copy makes one that may be changed.
func Build(t testing.TB, pkg string) string {
	t.Helper()
	built.Lock()
	once := built.programs[pkg]
	if once == nil {
		once = sync.OnceValues(func() (string, error) { return Link(pkg) })
		built.programs[pkg] = once
	}
	built.Unlock()
	path, err := once()
	require.NoError(t, err)
	return path
}

// Copy writes the program in pkg to path. It can be started at once: no process that is forked meanwhile keeps it open
// for writing.
func Copy(t testing.TB, pkg, path string) {
	t.Helper()
	content, err := os.ReadFile(Build(t, pkg))
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	Write(t, path, content)
}

// CopyFile copies a program, as Copy does.
func CopyFile(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(to, content, 0o755) //nolint:gosec // it is a program
}

// Write writes an executable file that can be started at once, as Copy does.
func Write(t testing.TB, path string, content []byte) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	require.NoError(t, os.WriteFile(path, content, 0o755)) //nolint:gosec // it is a program
}

// BuildModule returns the path of the program in the root of another module in this tree, a directory relative to the
// root of this module. Otherwise it is like Build.
func BuildModule(dir string) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	b := tree{root: root, dir: filepath.Join(root, filepath.FromSlash(dir)),
		env: []string{"GOWORK=off", "GOFLAGS=-mod=readonly", "CGO_ENABLED=0"}}
	return b.link(dir, ".")
}

// Link is Build for callers without a test.
func Link(pkg string) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	// Static, as in releases: it may run in an image without any other files.
	b := tree{root: root, dir: root, env: []string{"CGO_ENABLED=0"}}
	return b.link(pkg, "./"+filepath.ToSlash(pkg))
}

// tree is a directory in which the go command builds programs.
type tree struct {
	root string   // of this module
	dir  string   // of the module of the program
	env  []string // in addition to that of the test
}

// run runs the go command in the directory of the module. With Cmd.Dir, os/exec would check that directory, whose time
// changes with every page in it.
func (b tree) run(args ...string) ([]byte, error) {
	cmd := exec.Command("go", append([]string{"-C", b.dir}, args...)...)
	cmd.Env = append(os.Environ(), b.env...)
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s in %s: %w: %s", args[0], b.dir, err, problems.Bytes())
	}
	return out, nil
}

// link links the program of pkg, unless it is up to date, which the go command determines. A lock prevents other
// processes from starting it meanwhile. With -trimpath, compiled packages can be used in all directories, and with -s,
// linking takes two thirds of the time.
func (b tree) link(name, pkg string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(b.root))
	dir := filepath.Join(cache, "cleat", "test-programs", hex.EncodeToString(sum[:8]),
		strings.ReplaceAll(filepath.ToSlash(name), "/", "_"))
	lock, err := lockDir(dir)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	path := filepath.Join(dir, filepath.Base(name))
	if _, err := b.run("build", "-buildvcs=false", "-trimpath", "-ldflags=-s", "-o", path, pkg); err != nil {
		return "", err
	}
	return path, b.dependOnProgram(pkg, path)
}

// lockDir makes a directory and locks it against other processes, until the file is closed.
func lockDir(dir string) (lock *os.File, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if lock, err = os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", lock.Name(), err), lock.Close())
	}
	return lock, nil
}

// Root returns the root of the module that the working directory is in. For the modules inside of this project, it is
// that of the project.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && !bytes.HasPrefix(text, []byte("module github.com/cleat-dev/cleat/")) {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) || parent == dir {
			return "", fmt.Errorf("find the root of the module: %w", errors.Join(err, fs.ErrNotExist))
		}
		dir = parent
	}
}
