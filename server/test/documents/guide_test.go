package documents_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// readExamples returns the example files of framework by their directories, relative to framework.
func readExamples(t *testing.T) map[string]string {
	t.Helper()
	framework := filepath.Join(root, "framework")
	examples := map[string]string{}
	require.NoError(t, filepath.WalkDir(framework, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Name() != "example_test.go" {
			return err
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(framework, filepath.Dir(path))
		examples[filepath.ToSlash(dir)] = string(source)
		return err
	}))
	return examples
}

func TestSnippetsOfTheGuideAreExamples(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile(filepath.Join(root, "framework", "README.md"))
	require.NoError(t, err)
	examples := readExamples(t)
	blocks := strings.Split(string(guide), "```go\n")[1:]
	require.Greater(t, len(blocks), 10)
	for _, block := range blocks {
		snippet, _, closed := strings.Cut(block, "```")
		require.True(t, closed)
		found := false
		for _, source := range examples {
			found = found || strings.Contains(source, snippet)
		}
		require.True(t, found, "no example_test.go below framework has this text:\n%s", snippet)
	}
}

func TestEveryPackageForAuthorsHasAnExample(t *testing.T) {
	t.Parallel()
	examples := readExamples(t)
	framework := filepath.Join(root, "framework")
	packages := 0
	require.NoError(t, filepath.WalkDir(framework, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		switch entry.Name() {
		case "internal", "testdata", "api", "hostapi", "hostenv", "storetest": // not for authors, or only types and tests
			return filepath.SkipDir
		}
		if sources, err := filepath.Glob(filepath.Join(path, "doc.go")); err != nil || len(sources) == 0 {
			return err
		}
		packages++
		dir, err := filepath.Rel(framework, path)
		require.Contains(t, examples[filepath.ToSlash(dir)], "func Example",
			"package framework/%s has no example_test.go with an Example", filepath.ToSlash(dir))
		return err
	}))
	require.Greater(t, packages, 14)
}
