package programs_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestResultsAreKeptUntilTheSourceChanges runs the tests of a module, which run a program of that module, after changes
// of the program.
func TestResultsAreKeptUntilTheSourceChanges(t *testing.T) {
	t.Parallel()
	m := newModule(t)
	const word, text = "package word\n\nimport _ \"embed\"\n\nconst Word = %q\n\n//go:embed embedded/text\nvar Text " +
		"string\n", "embedded"
	m.write("word/word.go", fmt.Sprintf(word, "imported"))
	m.write("word/embedded/text", text)
	m.write("says/main.go", "package main\n\nimport \"example.io/m/word\"\n\nfunc main() { print(word.Word, \" \", "+
		"word.Text) }\n")
	m.test("first", "server/test/programs", `programs.Build(t, "says")`)
	m.test("second", "framework/plugintest", `plugintest.Build(t, "../says")`)

	m.run("ok", false)
	m.run("ok", true)
	m.write("word/word.go", fmt.Sprintf(word, "another"))
	m.run("FAIL", false)
	m.write("word/word.go", fmt.Sprintf(word, "imported"))
	m.run("ok", false)
	m.write("word/embedded/text", "other")
	m.run("FAIL", false)
	m.write("word/embedded/text", text)
	m.run("ok", false)
	m.write("says/also.go", "package main\n\nfunc init() { print(\"not \") }\n")
	m.run("FAIL", false)
}

// module is a module that uses this one.
type module struct {
	t        *testing.T
	dir      string
	env      []string
	packages []string // with a test
}

func newModule(t *testing.T) *module {
	t.Helper()
	root, err := filepath.Abs("../../..")
	require.NoError(t, err)
	cache, err := exec.CommandContext(t.Context(), "go", "env", "GOCACHE").Output()
	require.NoError(t, err)
	m := &module{t: t, dir: t.TempDir()}
	m.env = append(os.Environ(), "GOFLAGS=-mod=mod -trimpath", "GOWORK=off", "GOCACHE="+strings.TrimSpace(string(cache)),
		"XDG_CACHE_HOME="+t.TempDir()) // of the programs
	const name = "github.com/cleat-dev/cleat"
	own, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.NoError(t, err)
	m.write("go.mod", strings.Replace(string(own), "module "+name, "module example.io/m", 1)+
		fmt.Sprintf("\nrequire %[1]s v0.0.0\n\nreplace %[1]s => %[2]s\n", name, root))
	// The go command keeps no result of a test that has read a new file.
	old := time.Now().Add(-time.Hour)
	require.NoError(t, os.Chtimes(filepath.Join(m.dir, "go.mod"), old, old))
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	require.NoError(t, err)
	m.write("go.sum", string(sums))
	return m
}

func (m *module) write(name, text string) {
	m.t.Helper()
	path := filepath.Join(m.dir, filepath.FromSlash(name))
	require.NoError(m.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(m.t, os.WriteFile(path, []byte(text), 0o600))
}

// test adds a package with a test that runs the program that the expression build builds, with a package of this
// module.
func (m *module) test(name, with, build string) {
	m.t.Helper()
	m.packages = append(m.packages, "./"+name)
	m.write(name+"/says_test.go", fmt.Sprintf(`package says

import (
	"os/exec"
	"testing"

	"github.com/cleat-dev/cleat/%s"
)

func TestSays(t *testing.T) {
	if out, err := exec.Command(%s).CombinedOutput(); err != nil || string(out) != "imported embedded" {
		t.Fatal(err, string(out))
	}
}
`, with, build))
}

// run runs the tests, which must have a result: "ok" or "FAIL", from this run or cached.
func (m *module) run(result string, kept bool) {
	m.t.Helper()
	cmd := exec.CommandContext(m.t.Context(), "go", append([]string{"test", "-vet=off"}, m.packages...)...)
	cmd.Dir, cmd.Env = m.dir, m.env
	out, err := cmd.CombinedOutput()
	require.Equal(m.t, result == "FAIL", err != nil, "%s", out)
	var results int
	for line := range strings.Lines(string(out)) {
		if fields := strings.Fields(line); len(fields) > 2 && fields[0] == result {
			results++
			require.Equal(m.t, kept, fields[2] == "(cached)", line)
		}
	}
	require.Equal(m.t, len(m.packages), results, "%s", out)
}
