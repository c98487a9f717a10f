package plugininit_test

import (
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/modfile"
	"sigs.k8s.io/yaml"

	"github.com/cleat-dev/cleat/server/internal/setup/plugininit"
	"github.com/cleat-dev/cleat/server/test/programs"
	"github.com/cleat-dev/cleat/versioning/kinds"
)

// tree returns this source tree, on which the projects are built.
func tree(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../../../..")
	require.NoError(t, err)
	return root
}

// write writes a project on this tree, with a go.sum, so that it needs no network.
func write(t *testing.T, dir string, kinds ...string) {
	t.Helper()
	_, err := plugininit.Write(dir, plugininit.Options{Name: "example.io/stamp", Kinds: kinds, Framework: tree(t)})
	require.NoError(t, err)
	sum, err := os.ReadFile(filepath.Join(tree(t), "go.sum"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.sum"), sum, 0o644))
}

// run runs a program in a project and returns its output. What the go command compiles for one directory serves others
// as well, because of -trimpath; it runs all tests, whether they have passed before or not.
func run(t *testing.T, dir, program string, args ...string) string {
	t.Helper()
	programs.Depend(t, "./framework/...")
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOFLAGS=-mod=mod -trimpath -count=1", "GOWORK=off")
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s %s\n%s", program, strings.Join(args, " "), output)
	return string(output)
}

func TestProjectOfAllKindsBuildsAndPasses(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "stamp")
	write(t, dir, plugininit.Kinds()...)
	run(t, dir, "make", "lint", "test", "build")
	require.FileExists(t, filepath.Join(dir, "bin", "stamp"))
}

func TestKindsOfLocationsAreTestedWithConfig(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"DataMover", "ObjectStore"} {
		dir := filepath.Join(t.TempDir(), "stamp")
		write(t, dir, kind)
		output := run(t, dir, "go", "test", "-v", "-run", "Rules", ".")
		require.Contains(t, output, "--- PASS: TestThePluginKeepsTheRulesOfItsKinds/"+kind+"/example.io/stamp/")
		require.NotContains(t, output, "config is given for it")
		require.NotContains(t, output, "warning")
	}
}

// TestProjectOfOneKindBuilds builds each kind alone. Its files are the same as in the project of all kinds, whose tests
// run. The projects are packages of one module here, since they require the same: so one command builds all of them.
func TestProjectOfOneKindBuilds(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write(t, root) // of no kind
	module, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.NoError(t, err)
	for _, kind := range plugininit.Kinds() {
		dir := filepath.Join(root, kind)
		write(t, dir, kind)
		own, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		require.NoError(t, err)
		require.Equal(t, string(module), string(own), kind)
		require.NoError(t, os.Remove(filepath.Join(dir, "go.mod")))
	}
	vetted := run(t, root, "go", "list", "./...")
	require.Len(t, strings.Fields(vetted), 1+len(plugininit.Kinds()))
	run(t, root, "go", "vet", "./...")
}

func TestEveryKindOfTheServerCanBeChosen(t *testing.T) {
	t.Parallel()
	newest := map[string]bool{}
	for _, kind := range kinds.All() {
		newest[kind.Kind] = true
	}
	for _, word := range plugininit.Kinds() {
		require.True(t, newest[word], word)
		delete(newest, word)
	}
	require.Empty(t, newest)
}

func TestFilesAreWellFormed(t *testing.T) {
	t.Parallel()
	files, err := plugininit.Files(plugininit.Options{
		Name: "example.io/stamp", Module: "example.org/x/stamp-plugin", Kinds: plugininit.Kinds(), Framework: "v1.2.3",
	})
	require.NoError(t, err)
	contents := map[string]string{}
	for _, file := range files {
		content := string(file.Content)
		contents[file.Path] = content
		require.NotContains(t, content, "<no value>", file.Path)
		require.True(t, strings.HasSuffix(content, "\n") && !strings.HasSuffix(content, "\n\n"), "%s ends in one line end",
			file.Path)
		if strings.HasSuffix(file.Path, ".go") {
			formatted, err := format.Source(file.Content)
			require.NoError(t, err, file.Path)
			require.Equal(t, string(formatted), content, file.Path)
		}
	}
	mod, err := modfile.Parse("go.mod", []byte(contents["go.mod"]), nil)
	require.NoError(t, err)
	require.Equal(t, "example.org/x/stamp-plugin", mod.Module.Mod.Path)
	require.Equal(t, "github.com/cleat-dev/cleat v1.2.3", mod.Require[0].Mod.Path+" "+mod.Require[0].Mod.Version)
	require.Empty(t, mod.Replace)
	own, err := os.ReadFile("../../../../go.mod")
	require.NoError(t, err)
	ours, err := modfile.Parse("go.mod", own, nil)
	require.NoError(t, err)
	require.Equal(t, ours.Go.Version, mod.Go.Version, "a plugin needs the Go that the framework needs")

	var workflow struct {
		Jobs map[string]struct{ Steps []struct{ Run string } }
	}
	require.NoError(t, yaml.Unmarshal([]byte(contents[".github/workflows/ci.yaml"]), &workflow))
	for _, step := range workflow.Jobs["plugin"].Steps {
		if step.Run == "" {
			continue
		}
		target, isMake := strings.CutPrefix(step.Run, "make ")
		require.True(t, isMake, step.Run)
		require.Contains(t, contents["Makefile"], "\n"+target+":", "CI runs what is there")
	}
	require.Contains(t, contents["Dockerfile"], `cp /plugins/* /target/.`)
	require.Contains(t, contents["README.md"], "| QueueAdmission | 1 |")
}

func TestProjectWithoutVersionRequiresLatest(t *testing.T) {
	t.Parallel()
	files, err := plugininit.Files(plugininit.Options{Name: "example.io/stamp"})
	require.NoError(t, err)
	for _, file := range files {
		if file.Path == "go.mod" {
			require.Equal(t, "module example.io/stamp\n\ngo 1.26.0\n", string(file.Content))
		}
	}
}

func TestKindNamesIgnoreCaseAndVersion(t *testing.T) {
	t.Parallel()
	files, err := plugininit.Files(plugininit.Options{Name: "example.io/stamp",
		Kinds: []string{"objectstore", "BackupItemActionV2", "ObjectStore"}})
	require.NoError(t, err)
	var kinds []string
	for _, file := range files {
		if name, of := strings.CutSuffix(file.Path, ".go"); of && !strings.HasPrefix(name, "main") &&
			!strings.HasSuffix(name, "_test") {
			kinds = append(kinds, name)
		}
	}
	require.Equal(t, []string{"backup_item_action", "object_store"}, kinds)
}

func TestWrongOptions(t *testing.T) {
	t.Parallel()
	elsewhere := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(elsewhere, "go.mod"), []byte("module example.org/other\n"), 0o600))
	for name, test := range map[string]struct {
		options plugininit.Options
		want    string
	}{
		"no name":     {plugininit.Options{}, `must be "domain/name", like "example.io/stamp"`},
		"no slash":    {plugininit.Options{Name: "stamp"}, `must be "domain/name"`},
		"three parts": {plugininit.Options{Name: "example.io/a/b"}, `must be "domain/name"`},
		"no domain":   {plugininit.Options{Name: "Example_io/stamp"}, "must start with a DNS subdomain"},
		"upper case": {plugininit.Options{Name: "example.io/Stamp"},
			`"Stamp" must be at most 63 lower-case letters`},
		"a path":   {plugininit.Options{Name: "example.io/.."}, `".." must be at most 63`},
		"a space":  {plugininit.Options{Name: "example.io/a b"}, `"a b" must be at most 63`},
		"too long": {plugininit.Options{Name: "example.io/" + strings.Repeat("x", 64)}, "must be at most 63"},
		"no module": {plugininit.Options{Name: "example.io/stamp", Module: "Not A Module"},
			`module "Not A Module" is not the path of a Go module`},
		"a domain without dot": {plugininit.Options{Name: "local/stamp"},
			"missing dot in first path element, and the name of the plugin stands for it; choose a module"},
		"the framework's": {plugininit.Options{Name: "example.io/stamp", Module: "github.com/cleat-dev/cleat/x"},
			"belongs to the framework"},
		"no kind": {plugininit.Options{Name: "example.io/stamp", Kinds: []string{"BackupAction"}},
			`kind "BackupAction" is not known, there are: BackupItemAction, `},
		"no version": {plugininit.Options{Name: "example.io/stamp", Framework: "1.2"},
			`framework "1.2" is neither a version`},
		"no tree": {plugininit.Options{Name: "example.io/stamp", Framework: "./nowhere"},
			"is not a source tree of github.com/cleat-dev/cleat"},
		"another tree": {plugininit.Options{Name: "example.io/stamp", Framework: elsewhere},
			`its go.mod declares "example.org/other"`},
	} {
		_, err := plugininit.Files(test.options)
		require.ErrorContains(t, err, test.want, name)
	}
}

func TestWriteOverwritesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	mine := filepath.Join(dir, "main.go")
	require.NoError(t, os.WriteFile(mine, []byte("mine"), 0o600))
	require.NoError(t, os.Symlink("nowhere", filepath.Join(dir, "Makefile")))
	_, err := plugininit.Write(dir, plugininit.Options{Name: "example.io/stamp"})
	require.ErrorContains(t, err, dir+" already has Makefile, main.go; nothing is overwritten")
	content, err := os.ReadFile(mine)
	require.NoError(t, err)
	require.Equal(t, "mine", string(content))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2, "and nothing else is written")
}

func TestFailedWriteLeavesNoFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".github"), nil, 0o600), "where a folder has to be")
	_, err := plugininit.Write(dir, plugininit.Options{Name: "example.io/stamp"})
	require.Error(t, err)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

// FuzzNames checks that accepted names lead to valid files.
func FuzzNames(f *testing.F) {
	f.Add("example.io/stamp", "")
	f.Add("example.io/a-b.c_d", "example.org/x/y")
	f.Add("local/\"quoted\"", "a\nb")
	f.Fuzz(func(t *testing.T, name, module string) {
		files, err := plugininit.Files(plugininit.Options{Name: name, Module: module, Kinds: plugininit.Kinds(),
			Framework: "v1.2.3"})
		if err != nil {
			return
		}
		for _, file := range files {
			require.True(t, filepath.IsLocal(filepath.FromSlash(file.Path)), file.Path)
			switch {
			case strings.HasSuffix(file.Path, ".go"):
				_, err = format.Source(file.Content)
			case file.Path == "go.mod":
				_, err = modfile.Parse("go.mod", file.Content, nil)
			case strings.HasSuffix(file.Path, ".yaml"):
				err = yaml.Unmarshal(file.Content, &map[string]any{})
			}
			require.NoError(t, err, file.Path)
		}
	})
}

func TestSourceTreeIsFoundAroundAPath(t *testing.T) {
	t.Parallel()
	require.Equal(t, tree(t), plugininit.SourceTree(t.TempDir(), filepath.Join(tree(t), "server", "plugininit")))
	require.Equal(t, tree(t), plugininit.SourceTree(filepath.Join(tree(t), "bin", "cleat")))
	require.Empty(t, plugininit.SourceTree(t.TempDir(), "relative"))
}
