package documents_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// maxHops is the maximum number of functions in a walk.
const maxHops = 15

// hop is one row of a walk in ARCHITECTURE.md.
type hop struct {
	file     string // slash-separated, relative to the root
	function string // "Run", or "Queue.Reconcile" for a method
	next     string // the identifier by which the function reaches the next hop; empty in the last row
}

// row matches a row of a walk: number, file, function, the identifier that leads on, and the description.
var row = regexp.MustCompile("^\\| *\\d+ *\\| *`([^`]+\\.go)` *\\| *`([^`]+)` *\\| *(?:`([^`]+)`|-) *\\|[^|]+\\|$")

func TestWalksOfTheArchitectureMatchTheCode(t *testing.T) {
	t.Parallel()
	walks := readWalks(t)
	require.Len(t, walks, 6, "a backup, an item, a restored item, a hook, an asynchronous operation, a plugin binary")
	for title, hops := range walks {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			require.NotEmpty(t, hops)
			require.LessOrEqual(t, len(hops), maxHops)
			for i, hop := range hops {
				function := findFunction(t, hop)
				if i == len(hops)-1 {
					require.Empty(t, hop.next, "the last row of the walk leads nowhere")
					break
				}
				require.NotEmpty(t, hop.next, "%s %s: want the identifier that leads to %s", hop.file, hop.function,
					hops[i+1].function)
				require.True(t, mentions(function, hop.next), "%s: %s does not mention %s", hop.file, hop.function, hop.next)
			}
		})
	}
}

// readWalks returns the walks of ARCHITECTURE.md by their headings. A walk is a table whose header begins with "| # |".
func readWalks(t *testing.T) map[string][]hop {
	t.Helper()
	document, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	require.NoError(t, err)
	walks := map[string][]hop{}
	var title string
	inWalk := false
	for line := range strings.Lines(string(document)) {
		line = strings.TrimRight(line, "\n")
		switch heading, isHeading := strings.CutPrefix(line, "### "); {
		case isHeading:
			title, inWalk = heading, false
		case strings.HasPrefix(line, "| # |"):
			inWalk = true
		case !strings.HasPrefix(line, "|"):
			inWalk = false
		case inWalk && !strings.HasPrefix(line, "|---"):
			match := row.FindStringSubmatch(line)
			require.NotNil(t, match, "%s: not a row of a walk: %s", title, line)
			walks[title] = append(walks[title], hop{file: match[1], function: match[2], next: match[3]})
		}
	}
	return walks
}

func findFunction(t *testing.T, hop hop) *ast.FuncDecl {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, filepath.FromSlash(hop.file)), nil,
		parser.SkipObjectResolution)
	require.NoError(t, err)
	for _, declaration := range file.Decls {
		if function, ok := declaration.(*ast.FuncDecl); ok && qualifiedName(function) == hop.function {
			return function
		}
	}
	require.FailNow(t, "no such function", "%s has no function %s", hop.file, hop.function)
	return nil
}

// qualifiedName returns "Function" for a function and "Type.Method" for a method.
func qualifiedName(function *ast.FuncDecl) string {
	if function.Recv == nil {
		return function.Name.Name
	}
	receiver := function.Recv.List[0].Type
	if pointer, ok := receiver.(*ast.StarExpr); ok {
		receiver = pointer.X
	}
	switch generic := receiver.(type) {
	case *ast.IndexExpr:
		receiver = generic.X
	case *ast.IndexListExpr:
		receiver = generic.X
	}
	name, ok := receiver.(*ast.Ident)
	if !ok {
		return function.Name.Name
	}
	return name.Name + "." + function.Name.Name
}

// mentions reports whether the identifier occurs in the body of function.
func mentions(function *ast.FuncDecl, identifier string) bool {
	found := false
	ast.Inspect(function.Body, func(node ast.Node) bool {
		if name, ok := node.(*ast.Ident); ok && name.Name == identifier {
			found = true
		}
		return !found
	})
	return found
}
