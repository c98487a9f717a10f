package documents_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// decoders are the functions that decode bytes. A function that mentions one is a parser.
var decoders = []string{
	"json.Unmarshal", "json.NewDecoder", "jsontext.NewDecoder", "rawjson.Decoder", "kjson.UnmarshalStrict",
	"kjson.UnmarshalCaseSensitivePreserveInts", "utiljson.Unmarshal",
	"protojson.Unmarshal", "proto.Unmarshal", "yaml.Unmarshal", "yaml.UnmarshalStrict", "yaml.NewDecoder",
	"yaml.YAMLToJSONStrict", "configmap.Decode", "configmap.DecodeKnown", "configmap.JSON",
	"foreign.Decode", "foreign.List", "foreign.Unmarshal", "item.DecodeForeign", "item.Unmarshal", "store.DecodeMetadata", "gzip.NewReader", "zlib.NewReader",
	"flate.NewReader", "zstd.NewReader", "tar.NewReader",
	"zip.NewReader", "zip.OpenReader", "io.ReadAll", "gob.NewDecoder", "xml.Unmarshal", "xml.NewDecoder", "pem.Decode", "age.Decrypt", "age.DecryptReaderAt",
	"x509.ParseCertificate", "csv.NewReader",
	// of requests to the console
	"url.Parse", "mime.ParseMediaType", "manifest.FilterFlags",
}

// withoutParsers are folders whose code reads no foreign bytes: tests, benchmarks and examples.
var withoutParsers = []string{"server/test", "server/bench", "examples", "framework/conformance", "versioning/testkind",
	"plugins/internal/storetest", "server/internal/control/controllertest"}

// trusted are the reasons for which a parser needs no fuzz target.
var trusted = map[string]string{
	"reply": "the API server's reply to a request of this process, into a type with fields; it bounds the size, and a " +
		"panic ends as an error of the object",
	"item": "an object that server/internal/engine/restore/object or server/internal/kube/item has validated, into a " +
		"type with fields; a panic ends as an error of the item",
	"own": "a file that this program has written, or is a part of it",
	"user": "a file or option of the person who runs the command, or the answer to their request; only the command " +
		"could end",
	"url":     "a URL of which parts are compared, after the standard library has parsed it",
	"bytes":   "only unpacks or copies bytes, within a limit, for a parser that is in the table",
	"adapter": "only calls a parser that is in the table",
	"program": "the output of a program that this process has started, into a type with fields",
	"key":     "what the bearer of a trusted key has signed, or is about to be compared with a signature",
	"author":  "runs in the tests of an author",
	"kernel":  "a file that the kernel has written",
}

// TestAcceptSecurity_FuzzTargets shows that every parser of foreign bytes has a fuzz target: testdata/parsers.txt names
// it for each function that decodes something, or the reason why there is none.
func TestAcceptSecurity_FuzzTargets(t *testing.T) {
	t.Parallel()
	table := readParsers(t)
	found, targets := findParsers(t)
	const file = "server/test/documents/testdata/parsers.txt"
	var wrong []string
	for parser, calls := range found {
		if table[parser] == "" {
			wrong = append(wrong, fmt.Sprintf("%s calls %v: give it a fuzz target and add a line to %s: %s FOLDER.FuzzName",
				parser, calls, file, parser))
		}
	}
	used := map[string]bool{}
	for parser, target := range table {
		reason, without := strings.CutPrefix(target, "-")
		switch {
		case found[parser] == nil:
			wrong = append(wrong, fmt.Sprintf("%s decodes nothing: remove its line from %s", parser, file))
		case without && trusted[reason] == "":
			wrong = append(wrong, fmt.Sprintf("%s: %q is no reason; want a fuzz target, or - and one of the reasons in "+
				"parsers_test.go", parser, target))
		case !without && !targets[target]:
			wrong = append(wrong, fmt.Sprintf("%s: there is no fuzz target %s", parser, target))
		}
		used[target] = true
	}
	slices.Sort(wrong)
	require.Empty(t, wrong, strings.Join(wrong, "\n"))
	require.Greater(t, len(used), 30)
}

// readParsers returns the table: for each parser, "FOLDER.Function" or "FOLDER.Type.Method", its fuzz target,
// "FOLDER.FuzzName", or a reason, "-reason".
func readParsers(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "parsers.txt"))
	require.NoError(t, err)
	table := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		require.Len(t, fields, 2, line)
		require.NotContains(t, table, fields[0], "it is there twice")
		table[fields[0]] = fields[1]
	}
	return table
}

// findParsers returns the functions that decode something, with the decoders that they call, and the fuzz targets.
func findParsers(t *testing.T) (parsers map[string][]string, targets map[string]bool) {
	t.Helper()
	parsers, targets = map[string][]string{}, map[string]bool{}
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		folder := filepath.ToSlash(relative)
		if entry.IsDir() {
			if slices.Contains(withoutParsers, folder) || entry.Name() == "testdata" ||
				len(entry.Name()) > 2 && strings.HasPrefix(entry.Name(), ".") {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(folder, ".go") {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, declaration := range parsed.Decls {
			function, is := declaration.(*ast.FuncDecl)
			if !is {
				continue
			}
			name := path.Dir(folder) + "." + nameOf(function)
			if strings.HasSuffix(folder, "_test.go") {
				targets[name] = strings.HasPrefix(function.Name.Name, "Fuzz")
			} else if calls := decodersIn(function); len(calls) > 0 {
				parsers[name] = append(parsers[name], calls...)
			}
		}
		return nil
	})
	require.NoError(t, err)
	return parsers, targets
}

// nameOf returns the name of a function, with that of its type if it is a method.
func nameOf(function *ast.FuncDecl) string {
	if function.Recv == nil {
		return function.Name.Name
	}
	receiver := ""
	ast.Inspect(function.Recv.List[0].Type, func(n ast.Node) bool {
		if name, is := n.(*ast.Ident); is && receiver == "" {
			receiver = name.Name
		}
		return true
	})
	return receiver + "." + function.Name.Name
}

// decodersIn returns the decoders that a function mentions.
func decodersIn(function *ast.FuncDecl) (calls []string) {
	ast.Inspect(function, func(n ast.Node) bool {
		if selector, is := n.(*ast.SelectorExpr); is {
			if qualifier, is := selector.X.(*ast.Ident); is {
				if call := qualifier.Name + "." + selector.Sel.Name; slices.Contains(decoders, call) {
					calls = append(calls, call)
				}
			}
		}
		return true
	})
	return calls
}
