package documents_test

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/plugins"
)

// objectKey is an annotation, label or finalizer that the programs set or read.
type objectKey struct {
	class   string // Annotations, Labels or Finalizers
	name    string // such as "velero.io/backup-name"
	meaning string
	file    string // where it is declared, relative to the root
}

// keyText matches the name of an annotation, label, finalizer or plugin, or a prefix of such names.
var keyText = regexp.MustCompile(`^(?:[a-z]+\.)*(?:cleat\.dev|velero\.io)/[a-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?$`)

// hookKeys are the annotations whose names package hook composes, by their prefixes.
var hookKeys = []struct {
	prefix, when string
	suffixes     []string
}{
	{"pre.hook.backup.velero.io/", "before the pod is backed up", ofBackups},
	{"hook.backup.velero.io/", "before the pod is backed up (the older name)", ofBackups},
	{"post.hook.backup.velero.io/", "after the pod was backed up", ofBackups},
	{"post.hook.restore.velero.io/", "after the pod was restored", []string{
		"command", "container", "on-error", "exec-timeout", "wait-timeout", "wait-for-ready",
	}},
}

// ofBackups are the suffixes of the annotations of hooks of backups.
var ofBackups = []string{"command", "container", "on-error", "timeout"}

// hookMeanings describe the annotations of hookKeys, by their suffixes.
var hookMeanings = map[string]string{
	"command":        "Command that runs %s: a word, or a JSON list of words.",
	"container":      "Container of the command that runs %s. The default is the first one.",
	"on-error":       "Result of a failure of the command that runs %s: Fail or Continue.",
	"timeout":        "Time limit of the command that runs %s, such as 30s.",
	"exec-timeout":   "Time limit of the command that runs %s, such as 30s.",
	"wait-timeout":   "Time limit of the wait for the container of the command that runs %s.",
	"wait-for-ready": "Whether the command that runs %s waits until its container is ready, and not only until it runs.",
}

// classOf returns the class of a constant by its name, or "" if it is not a key.
func classOf(constant string) string {
	name := strings.ToLower(constant)
	switch {
	case strings.Contains(name, "finalizer"):
		return "Finalizers"
	case strings.HasSuffix(name, "prefix"):
		return ""
	case strings.Contains(name, "annotation"),
		constant == "VolumeGroupSnapshotClassKey", constant == "VolumeSnapshotClassKey":
		return "Annotations"
	case strings.Contains(name, "label"):
		return "Labels"
	}
	return ""
}

// readObjectKeys returns the keys that constants of the programs name, and those of hooks, without duplicates.
func readObjectKeys(t *testing.T) []objectKey {
	t.Helper()
	found := map[string]objectKey{}
	for _, source := range sources(t, "framework", "plugins", "versioning", "server") {
		for _, declaration := range source.file.Decls {
			group, ok := declaration.(*ast.GenDecl)
			if !ok || group.Tok != token.CONST {
				continue
			}
			for _, spec := range group.Specs {
				constant, ok := spec.(*ast.ValueSpec)
				if !ok || len(constant.Values) != 1 || len(constant.Names) != 1 {
					continue
				}
				text, ok := stringOf(constant.Values[0])
				class := classOf(constant.Names[0].Name)
				if !ok || class == "" || !keyText.MatchString(text) {
					continue
				}
				doc := cmp.Or(constant.Doc.Text(), constant.Comment.Text())
				if len(group.Specs) == 1 {
					doc = cmp.Or(doc, group.Doc.Text())
				}
				k := objectKey{class: class, name: text, meaning: meaning(class, constant.Names[0].Name, doc), file: source.path}
				known, again := found[class+text]
				if !again || known.meaning == "" || strings.HasPrefix(k.file, "framework/api/") {
					found[class+text] = k
				}
			}
		}
	}
	for _, hooks := range hookKeys {
		for _, suffix := range hooks.suffixes {
			name := hooks.prefix + suffix
			found["Annotations"+name] = objectKey{
				class: "Annotations", name: name, meaning: fmt.Sprintf(hookMeanings[suffix], hooks.when),
				file: "server/internal/engine/hook/command.go",
			}
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b objectKey) int {
		return cmp.Or(cmp.Compare(a.class, b.class), cmp.Compare(a.name, b.name))
	})
}

// stringOf returns the value of a string literal.
func stringOf(e ast.Expr) (string, bool) {
	literal, ok := e.(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(literal.Value)
	return text, err == nil
}

// meaning returns the documentation of a constant as sentences about the key.
func meaning(class, constant, doc string) string {
	doc = strings.Join(strings.Fields(doc), " ")
	if rest, ok := strings.CutPrefix(doc, constant+" "); ok {
		doc = "The " + strings.ToLower(strings.TrimSuffix(class, "s")) + " " + rest
	}
	if doc != "" && !strings.HasSuffix(doc, ".") {
		doc += "."
	}
	return doc
}

// TestDocumentsAnnotationsAndLabels checks that the reference lists each annotation, label and finalizer of the
// programs, and that the programs and the pages name no others.
func TestDocumentsAnnotationsAndLabels(t *testing.T) {
	t.Parallel()
	keys := readObjectKeys(t)
	page := &strings.Builder{}
	page.WriteString("# Annotations and labels\n\n" +
		"Names below `velero.io` are those of Velero. Names below `cleat.dev` are those of cleat, which Velero ignores.\n")
	class := ""
	names := map[string]bool{}
	var problems []string
	for _, k := range keys {
		if k.class != class {
			class = k.class
			page.WriteString("\n## " + class + "\n" + tableHead("name", "meaning", "declared in"))
		}
		if k.meaning == "" {
			problems = append(problems, fmt.Sprintf("%s: the constant with %s has no comment", k.file, k.name))
		}
		declared := fmt.Sprintf("[%s](../../../%s)", filepath.Base(k.file), k.file)
		page.WriteString(tableRow(code(k.name), escape(k.meaning), declared))
		names[k.name] = true
	}
	checkReference(t, "annotations-and-labels.md", page.String())

	hooks, err := os.ReadFile(filepath.Join(root, "server", "internal", "engine", "hook", "command.go"))
	require.NoError(t, err)
	restore, err := os.ReadFile(filepath.Join(root, "server", "internal", "engine", "hook", "restore.go"))
	require.NoError(t, err)
	backup, err := os.ReadFile(filepath.Join(root, "server", "internal", "engine", "hook", "backup.go"))
	require.NoError(t, err)
	code := string(hooks) + string(restore) + string(backup)
	for _, h := range hookKeys {
		require.Contains(t, code, strings.TrimPrefix(strings.TrimPrefix(h.prefix, "pre"), "post"))
		for _, suffix := range h.suffixes {
			require.Contains(t, code, strconv.Quote(suffix))
		}
	}

	allowed := otherNames(t)
	for _, source := range sources(t, "framework", "plugins", "versioning", "server") {
		ast.Inspect(source.file, func(n ast.Node) bool {
			literal, ok := n.(*ast.BasicLit)
			if !ok {
				return true
			}
			text, _ := stringOf(literal)
			if keyText.MatchString(text) && !names[text] && !allowed[text] {
				problems = append(problems, fmt.Sprintf("%s: the reference does not list %q: declare it as a constant whose name "+
					"ends with Annotation, Label or Finalizer", source.path, text))
			}
			return true
		})
	}
	for path, text := range pages(t) {
		for _, match := range keyOfPage.FindAllStringSubmatch(text, -1) {
			name := strings.TrimRight(match[1], "-._")
			if !names[name] && !allowed[name] && !isFamily(match[1], names, allowed) {
				problem := fmt.Sprintf("%s: there is no annotation, label, finalizer or plugin %s", path, match[1])
				problems = append(problems, problem)
			}
		}
	}
	report(t, problems)
}

// keyOfPage matches a name of the same form in a page. It does not match the domain of examples, example.cleat.dev.
var keyOfPage = regexp.MustCompile(
	`(?:^|[^A-Za-z0-9./@-])((?:[a-df-z][a-z]*\.)*(?:cleat\.dev|velero\.io)/[a-z0-9][A-Za-z0-9-]*)`)

// isFamily reports whether a page names several keys by their common prefix, such as `velero.io/csi-*`.
func isFamily(prefix string, all ...map[string]bool) bool {
	for _, names := range all {
		for name := range names {
			if len(prefix) > len("velero.io/") && strings.HasSuffix(prefix, "-") && strings.HasPrefix(name, prefix) {
				return true
			}
		}
	}
	return false
}

// otherNames returns names of the same form that are not keys: names of built-in plugins, versions of APIs, and
// identities.
func otherNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{
		"velero.io/v1": true, "velero.io/v2alpha1": true, "cleat.dev/v1": true, // versions of APIs
		"cleat.dev/server":                true, // replaces the policy in reasons of the server
		"cleat.dev/behind":                true, // a store, for the one in front of it
		"cleat.dev/object":                true, // a stanza of sealed objects
		"cleat.dev/kopia":                 true, // plugins that are separate programs
		"cleat.dev/restic":                true,
		"velero.io/aws":                   true, // third-party plugins
		"velero.io/vsphere-pvc-backupper": true,
		"velero.io/backup":                true, "velero.io/pv": true, // tags of snapshots
	}
	for _, plugin := range plugins.All() {
		names[plugin.Name()] = true
	}
	return names
}
