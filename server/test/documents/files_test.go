package documents_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	// goFile matches the name of a Go file in a comment or page, with the folders before it.
	goFile = regexp.MustCompile(`(?:^|[\s("'\x60,;:])((?:[A-Za-z0-9_.-]+/)*[a-z0-9_]+\.go)\b`)
	// pathOfRoot matches a path below a folder of the root.
	pathOfRoot = regexp.MustCompile(
		`(?:^|[\s('\x60,;:])((?:framework|versioning|plugins|proto|server|examples)/[A-Za-z0-9_./-]*[A-Za-z0-9_-])`)
	// link matches the target of a link in a page.
	link = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	// linkText matches the text of a link.
	linkText = regexp.MustCompile(`\[[^\]]*\]`)
	// codeBlock matches a block of code in a page.
	codeBlock = regexp.MustCompile("(?ms)^ *```.*?^ *```$|^(?: {4}|\\t).*?$")
	// heading matches a heading of a page.
	heading = regexp.MustCompile(`(?m)^#+ +(.*)$`)
)

// tree returns the paths of all files and folders of the tree, relative to the root.
func tree(t *testing.T) (paths map[string]bool) {
	t.Helper()
	paths = map[string]bool{}
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "node_modules" || relative == "bin") {
			return fs.SkipDir
		}
		paths[filepath.ToSlash(relative)] = true
		return nil
	})
	require.NoError(t, err)
	return paths
}

// exists reports whether a document in a folder may name a file: as a path from its own folder or from the root.
func exists(paths map[string]bool, folder, name string) bool {
	return paths[path.Join(folder, name)] || paths[name] || paths[path.Join("framework", name)]
}

// TestDocumentsFilesInComments checks that files named in comments of the code exist.
func TestDocumentsFilesInComments(t *testing.T) {
	t.Parallel()
	paths := tree(t)
	var problems []string
	found := 0
	for file := range paths {
		if path.Ext(file) != ".go" || strings.Contains(file, "/testdata/") || strings.HasSuffix(file, ".pb.go") {
			continue
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, filepath.Join(root, file), nil, parser.ParseComments|parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, comment := range parsed.Comments {
			for _, match := range goFile.FindAllStringSubmatch(comment.Text(), -1) {
				found++
				if !exists(paths, path.Dir(file), match[1]) {
					problems = append(problems, fmt.Sprintf("%s: there is no file %s", set.Position(comment.Pos()), match[1]))
				}
			}
			for _, match := range pathOfRoot.FindAllStringSubmatch(comment.Text(), -1) {
				found++
				if !exists(paths, path.Dir(file), strings.TrimSuffix(match[1], ".")) && !isPackageMember(paths, match[1]) {
					problems = append(problems, fmt.Sprintf("%s: there is no %s", set.Position(comment.Pos()), match[1]))
				}
			}
		}
	}
	require.Greater(t, found, 400)
	report(t, problems)
}

// isPackageMember reports whether a path is that of a package with the name of one of its identifiers, such as
// "framework/rawitem.Item".
func isPackageMember(paths map[string]bool, name string) bool {
	folder, last := path.Split(name)
	before, _, found := strings.Cut(last, ".")
	return found && paths[folder+before]
}

// TestDocumentsLinks checks that links, and paths in inline code, lead to existing files and headings.
func TestDocumentsLinks(t *testing.T) {
	t.Parallel()
	paths := tree(t)
	var problems []string
	found := 0
	for page, text := range pages(t) {
		folder := path.Dir(page)
		text = codeBlock.ReplaceAllString(text, "")
		for _, match := range link.FindAllStringSubmatch(text, -1) {
			target, err := url.Parse(match[1])
			require.NoError(t, err, "%s: %s", page, match[1])
			if target.Scheme != "" {
				continue
			}
			found++
			to := page
			if target.Path != "" {
				to = path.Join(folder, target.Path)
			}
			if !paths[to] {
				problems = append(problems, fmt.Sprintf("%s: the link %s leads to no file", page, match[1]))
			} else if target.Fragment != "" && !hasHeading(t, to, target.Fragment) {
				problems = append(problems, fmt.Sprintf("%s: %s has no heading for the link %s", page, to, match[1]))
			}
		}
		for _, pattern := range []*regexp.Regexp{goFile, pathOfRoot} {
			for _, match := range pattern.FindAllStringSubmatch(linkText.ReplaceAllString(text, ""), -1) {
				found++
				if strings.HasSuffix(match[1], ".example.io") {
					continue // a folder of an object store
				}
				if !exists(paths, folder, match[1]) && !isPackageMember(paths, match[1]) {
					problems = append(problems, fmt.Sprintf("%s: there is no file %s", page, match[1]))
				}
			}
		}
	}
	require.Greater(t, found, 200)
	report(t, problems)
}

func hasHeading(t *testing.T, page, anchor string) bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, page))
	require.NoError(t, err)
	for _, match := range heading.FindAllStringSubmatch(string(text), -1) {
		id := strings.ReplaceAll(strings.ToLower(strings.TrimSpace(match[1])), " ", "-")
		if regexp.MustCompile(`[^a-z0-9_-]`).ReplaceAllString(id, "") == anchor {
			return true
		}
	}
	return false
}
