package plugins_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/module"
	modzip "golang.org/x/mod/zip"

	"github.com/cleat-dev/cleat/server/test/site"
)

// TestAcceptPlugins_NewAuthor is an author who has only the cleat binary and Go, starts from an empty directory, and
// ends with a plugin whose effect is in a backup. The framework comes from a module proxy, like a published module.
func TestAcceptPlugins_NewAuthor(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/s3")
	release := module.Version{Path: "github.com/cleat-dev/cleat", Version: "v0.1.0"}
	author := &author{t: t, dir: t.TempDir(), env: goEnvironment(t, publish(t, release))}

	author.must(site.Program(t), "plugin", "init", "example.io/stamp", "--framework", release.Version)
	author.dir = filepath.Join(author.dir, "stamp")
	author.must("make", "lint", "test", "build")
	require.Contains(t, author.must("go", "list", "-m", "-f", "{{.Dir}} {{.Replace}}", release.Path), release.Path+"@"+
		release.Version+" <nil>",
		"the plugin is built on the published module, not on this tree")

	require.Contains(t, author.must(site.Program(t), "plugin", "test", "bin/stamp"), "BackupItemActionV2")

	plugins := t.TempDir()
	author.must("sh", "-c", fmt.Sprintf("cp bin/stamp %[1]s/.stamp && mv %[1]s/.stamp %[1]s/stamp", plugins))
	require.Contains(t, author.must(site.Program(t), "plugin", "lock", "--plugin-dir", plugins), "stamp")
	author.must(site.Program(t), "plugin", "verify", "--plugin-dir", plugins)
	config := filepath.Join(t.TempDir(), "cleat.yaml")
	require.NoError(t, os.WriteFile(config, []byte("apiVersion: cleat.dev/v1\nplugins: {lock: required}\n"), 0o600))
	s.Serve("--plugin-dir", plugins, "--config", config)
	s.Available()
	shop := s.Workload(3)
	s.Must("backup", "create", "first", "--include-namespaces", shop, "--wait")

	stamped := s.Archived("first", "resources/configmaps/namespaces/"+shop+"/item-a.json")
	var item struct {
		Metadata struct{ Annotations map[string]string }
	}
	require.NoError(t, json.Unmarshal(stamped, &item), "%s", stamped)
	require.Equal(t, "first", item.Metadata.Annotations["example.io/stamp"])
	require.Contains(t, s.Must("backup", "logs", "first"), "annotated",
		"the log of the backup contains the lines of the plugin")
}

// author runs commands in a directory.
type author struct {
	t   *testing.T
	dir string
	env []string
}

// must runs a program that has to succeed and returns its output.
func (a *author) must(program string, args ...string) string {
	a.t.Helper()
	cmd := exec.CommandContext(a.t.Context(), program, args...)
	cmd.Dir, cmd.Env = a.dir, a.env
	output, err := cmd.CombinedOutput()
	require.NoError(a.t, err, "%s %s\n%s", program, strings.Join(args, " "), output)
	return string(output)
}

// publish writes this source tree as a release into a module proxy, and returns the directory of the proxy.
func publish(t *testing.T, release module.Version) (proxy string) {
	t.Helper()
	root, err := filepath.Abs("../../..")
	require.NoError(t, err)
	proxy = t.TempDir()
	versions := filepath.Join(proxy, filepath.FromSlash(release.Path), "@v")
	require.NoError(t, os.MkdirAll(versions, 0o755))
	write := func(name string, content []byte) {
		require.NoError(t, os.WriteFile(filepath.Join(versions, name), content, 0o644))
	}
	definition, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.NoError(t, err)
	var archive bytes.Buffer
	require.NoError(t, modzip.Create(&archive, release, sourceFiles(t, root)))
	write("list", []byte(release.Version+"\n"))
	write(release.Version+".info", fmt.Appendf(nil, `{"Version":%q,"Time":%q}`, release.Version,
		time.Now().UTC().Format(time.RFC3339)))
	write(release.Version+".mod", definition)
	write(release.Version+".zip", archive.Bytes())
	return proxy
}

// sourceFiles returns the files of the module at root, except those that are hidden, built, or part of another module.
// It does not list root, whose directories .git and bin change without need to run this test again.
func sourceFiles(t *testing.T, root string) []modzip.File {
	t.Helper()
	var files []modzip.File
	add := func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			_, err := os.Stat(filepath.Join(path, "go.mod"))
			if err == nil || strings.HasPrefix(entry.Name(), ".") || slices.Contains([]string{"bin", "dist", "node_modules"},
				entry.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		relative, err := filepath.Rel(root, path)
		if entry.Type().IsRegular() {
			files = append(files, sourceFile{on: path, in: filepath.ToSlash(relative)})
		}
		return err
	}
	for _, top := range []string{"go.mod", "go.sum", "LICENSE", "README.md", "framework", "proto", "plugins", "server",
		"versioning", "examples"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(root, top), add))
	}
	return files
}

// sourceFile is a file on disk and its path in the module.
type sourceFile struct{ on, in string }

func (f sourceFile) Path() string { return f.in }

func (f sourceFile) Lstat() (os.FileInfo, error) { return os.Lstat(f.on) }

func (f sourceFile) Open() (io.ReadCloser, error) { return os.Open(f.on) }

// goEnvironment returns an environment in which the go command uses proxy first, then the downloads of this machine,
// then the usual proxies. It has its own module cache, so that no trace of the release remains.
func goEnvironment(t *testing.T, proxy string) []string {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), "go", "env", "GOMODCACHE", "GOPROXY").Output()
	require.NoError(t, err)
	cache, otherwise, _ := strings.Cut(strings.TrimSpace(string(output)), "\n")
	return append(os.Environ(),
		"GOPROXY=file://"+proxy+",file://"+filepath.Join(cache, "cache", "download")+","+otherwise,
		"GOMODCACHE="+t.TempDir(),
		"GOSUMDB=off", // it does not have the release
		"GOGC=",       // as for authors: the search for leaks sets its own
		"GOFLAGS=-modcacherw -trimpath",
		"GOWORK=off", "GONOPROXY=", "GOPRIVATE=", "GOTOOLCHAIN=local",
	)
}
