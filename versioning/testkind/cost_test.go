package testkind_test

import (
	"fmt"
	"io/fs"
	"path/filepath"
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
		require.LessOrEqual(t, lines+1, 250, "%v", files)
	}
	files, lines := handWritten(t, append(versionFiles(1), "versioning/itemweigher/hub.go", listFile)...)
	lines -= 2 // those of versions 2 and 3 in the list
	t.Logf("the kind with its first version costs %d lines in %d files: %v", lines, len(files), files)
	require.LessOrEqual(t, lines, 450)
	require.LessOrEqual(t, len(files), 5)
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
