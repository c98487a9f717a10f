package documents_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// attackTest matches the name of a test that makes an attack.
var attackTest = regexp.MustCompile(`\bTest(?:AcceptSecurity_)?[A-Z]\w*`)

// threat is one line of the threat model in SECURITY.md.
type threat struct {
	who   string
	limit string   // what the attacker can never reach
	tests []string // their names
}

// TestAcceptSecurity_ThreatModel checks that each line of the threat model names an existing test, and that each test
// of an attack is in a line.
func TestAcceptSecurity_ThreatModel(t *testing.T) {
	t.Parallel()
	model := readThreatModel(t)
	require.NotEmpty(t, model)
	tests := testFunctions(t)
	for _, who := range []string{"author of a plugin", "operator", "holder of rights on", "tenant", "writer of the bucket",
		"workload in a backed-up pod"} {
		require.True(t, slices.ContainsFunc(model, func(line threat) bool { return strings.Contains(line.who, who) }),
			"no line is about: %s", who)
	}
	named := map[string]bool{}
	for _, line := range model {
		require.NotEmpty(t, line.tests, "no test is named for: %s: %s", line.who, line.limit)
		for _, name := range line.tests {
			require.Contains(t, tests, name, "%s: %s", line.who, line.limit)
			named[name] = true
		}
	}
	for name := range tests {
		if strings.HasPrefix(name, "TestAcceptSecurity_") && name != t.Name() {
			require.True(t, named[name], "%s in %s makes an attack that no line of the threat model names", name, tests[name])
		}
	}
}

// readThreatModel returns the lines of the tables below "## Threat model" in SECURITY.md. The heading of each table
// names the attacker.
func readThreatModel(t *testing.T) (model []threat) {
	t.Helper()
	document, err := os.ReadFile(filepath.Join(root, "SECURITY.md"))
	require.NoError(t, err)
	_, section, found := strings.Cut(string(document), "\n## Threat model\n")
	require.True(t, found, `SECURITY.md has no section "Threat model"`)
	section, _, _ = strings.Cut(section, "\n## ")
	var who string
	for line := range strings.Lines(section) {
		line = strings.TrimSpace(line)
		if heading, isHeading := strings.CutPrefix(line, "### "); isHeading {
			who = strings.ToLower(heading)
		}
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|---") || strings.HasPrefix(line, "| Cannot") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		require.Len(t, cells, 3, "%s: want what cannot be reached, because of what, and the tests: %s", who, line)
		model = append(model, threat{who: who, limit: strings.TrimSpace(cells[0]),
			tests: attackTest.FindAllString(cells[2], -1)})
	}
	return model
}

// testFunctions returns the tests of all packages, with their files.
func testFunctions(t *testing.T) map[string]string {
	t.Helper()
	tests := map[string]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "node_modules"):
			return fs.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, declaration := range file.Decls {
			if function, ok := declaration.(*ast.FuncDecl); ok && function.Recv == nil &&
				strings.HasPrefix(function.Name.Name, "Test") {
				tests[function.Name.Name] = path
			}
		}
		return nil
	})
	require.NoError(t, err)
	return tests
}
