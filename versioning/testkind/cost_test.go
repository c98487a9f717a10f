package testkind_test

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	waitTime = time.Minute
	pollTime = time.Millisecond

	// listFile is the file in which each version of the kind is one line.
	listFile = "kinds/kinds.go"
)

// versionFiles returns the patterns of the files of a version, including its tests and generated code.
func versionFiles(version int) []string {
	return []string{
		fmt.Sprintf("proto/itemweigher/v%d/*", version),
		fmt.Sprintf("framework/itemweigher/v%d/*", version),
		fmt.Sprintf("versioning/itemweigher/v%d*.go", version),
	}
}

// lineOfVersion returns the text that identifies a version's line in the list.
func lineOfVersion(version int) string { return fmt.Sprintf("itemweigher.V%d(),", version) }

// TestWhatAKindAndAVersionCost counts the lines that somebody writes by hand, comments and empty lines included.
func TestWhatAKindAndAVersionCost(t *testing.T) {
	t.Parallel()
	for _, version := range []int{2, 3} {
		files, lines := handWritten(t, versionFiles(version)...)
		t.Logf("version %d costs %d lines in %d files, and a line in %s", version, lines, len(files), listFile)
		require.LessOrEqual(t, lines+1, 175, "%v", files)
	}
	files, lines := handWritten(t, append(versionFiles(1), "versioning/itemweigher/hub.go", listFile)...)
	lines -= 2 // those of versions 2 and 3 in the list
	t.Logf("the kind with its first version costs %d lines in %d files: %v", lines, len(files), files)
	require.LessOrEqual(t, lines, 225)
	require.LessOrEqual(t, len(files), 5)
}

// root is the directory of the module.
const root = "../.."

// TestWhatARealKindCosts counts what somebody writes by hand for a kind of the server: the files of the kind alone, and
// those that mention it, which are lists of kinds and rules of the conformance kit.
func TestWhatARealKindCosts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		kind              string
		own, lines, limit int
	}{
		{kind: "LoadSoothing", own: 8, lines: 490, limit: 11},
		{kind: "QueueAdmission", own: 12, lines: 767, limit: 19},
		{kind: "DataMover", own: 14, lines: 1469, limit: 21}, // two for its role
	} {
		own, lines := handWritten(t, filesOf(test.kind)...)
		mention := slices.DeleteFunc(product(t), func(file string) bool {
			return !strings.Contains(read(t, file), test.kind) && !slices.Contains(own, file)
		})
		t.Logf("%s costs %d lines in %d files; %d files mention it", test.kind, lines, len(own), len(mention))
		require.LessOrEqual(t, lines, test.lines)
		require.LessOrEqual(t, len(own), test.own, "%v", own)
		require.LessOrEqual(t, len(mention), test.limit, "%v", mention)
	}
}

// TestAFieldIsWrittenInThreePlaces shows that a field of a message is written in the proto, in the author's type, and
// in one codec: facades, plugins and the kits that test plugins share the type and the codec.
func TestAFieldIsWrittenInThreePlaces(t *testing.T) {
	t.Parallel()
	for kind, fields := range map[string]map[string]string{
		"LoadSoothing": {"storage_class": "StorageClass", "ahead": "Ahead", "retry_after": "RetryAfter"},
		"QueueAdmission": {"all_namespaces": "AllNamespaces", "operating": "Operating", "restoring": "Restoring",
			"blockers": "Blockers"},
		"DataMover": {"new_bytes": "NewBytes", "freed_bytes": "FreedBytes", "parent": "Parent", "kept": "Kept",
			"total_files": "TotalFiles"},
	} {
		files, _ := handWritten(t, filesOf(kind)...)
		for inProto, inGo := range fields {
			// declared in a message or a type, or given to a literal
			writes := regexp.MustCompile(`(?m)\b` + inProto + ` = \d|^\t` + inGo + `\b [^:=(]*$|\b` + inGo + `:`)
			places := slices.DeleteFunc(slices.Clone(files),
				func(file string) bool { return !writes.MatchString(read(t, file)) })
			require.Len(t, places, 3, "%s of %s", inProto, kind)
		}
	}
}

// filesOf returns the patterns of the files of a kind.
func filesOf(kind string) []string {
	name := strings.ToLower(kind)
	return []string{
		root + "/proto/cleat/" + name + "/*/*", root + "/framework/" + name + "/*/*", root + "/versioning/" + name + "/*",
		root + "/framework/plugintest/" + name + "_*",
	}
}

// product returns the hand-written Go and proto files below framework, versioning and proto that are no tests, without
// the types of Velero's API.
func product(t *testing.T) []string {
	t.Helper()
	var files []string
	for _, dir := range []string{"framework", "versioning", "proto"} {
		require.NoError(t, filepath.WalkDir(root+"/"+dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if name := entry.Name(); entry.IsDir() && (name == "testdata" || name == "testkind" || name == "api") {
				return filepath.SkipDir
			}
			if ext := filepath.Ext(path); ext == ".proto" || ext == ".go" && !strings.HasSuffix(path, "_test.go") &&
				!strings.HasSuffix(path, ".pb.go") {
				files = append(files, path)
			}
			return nil
		}))
	}
	return files
}

// handWritten returns the files of the patterns that are neither generated nor tests, and their number of lines.
func handWritten(t *testing.T, patterns ...string) (files []string, lines int) {
	t.Helper()
	for _, pattern := range patterns {
		found, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, found, pattern)
		for _, file := range found {
			if strings.HasSuffix(file, ".pb.go") || strings.HasSuffix(file, "_test.go") {
				continue
			}
			files = append(files, file)
			lines += strings.Count(read(t, file), "\n")
		}
	}
	return files, lines
}

func TestServerDoesNotMentionTheKind(t *testing.T) {
	t.Parallel()
	looked := 0
	require.NoError(t, filepath.WalkDir("../../server", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") {
			return err
		}
		looked++
		require.NotContains(t, strings.ToLower(read(t, path)), "itemweigher", path)
		return nil
	}))
	require.Greater(t, looked, 100)
}
