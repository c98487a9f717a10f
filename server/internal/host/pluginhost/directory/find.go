package directory

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/process"
	"github.com/cleat-dev/cleat/server/internal/host/pluginlock"
)

// File is an executable file below the plugin directory.
type File struct {
	Path     string // absolute
	Identity process.Identity
}

// found is the result of one walk of the plugin directory.
type found struct {
	files   []File
	omitted map[string]string // why a path is not a plugin
	folders []string          // real paths of the folders in which something can change, sorted
	missing bool              // there is no directory
}

// find finds the executable files below dir, in the order of a directory walk with the names sorted in each folder;
// that is Velero's order, and plugins run in it. A file counts when it has an execute bit or its name ends in ".exe".
// Symbolic links are followed, every file and folder is visited once. Names that begin with ".", names of unfinished
// files, and the lock are skipped. A missing dir is not an error.
func find(dir string) (found, error) {
	root, err := filepath.Abs(dir)
	if err != nil {
		return found{}, fmt.Errorf("find plugins in %q: %w", dir, err)
	}
	w := walker{seen: map[string]string{}, folders: map[string]struct{}{}, found: found{omitted: map[string]string{}}}
	if _, err := os.Stat(root); errors.Is(err, fs.ErrNotExist) {
		w.found.missing = true
		w.folders[filepath.Dir(root)] = struct{}{} // it can be created there
	} else {
		w.visit(root)
	}
	w.found.folders = slices.Sorted(maps.Keys(w.folders))
	return w.found, nil
}

type walker struct {
	seen    map[string]string // real path to the path under which it was found first
	folders map[string]struct{}
	found   found
}

func (w *walker) visit(path string) {
	if err := w.take(path); err != nil {
		w.found.omitted[path] = err.Error()
	}
}

// take adds path if it is a plugin binary, and visits the files below it if it is a folder. If it does neither, the
// error has the reason.
func (w *walker) take(path string) error {
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil {
		return fmt.Errorf("follow the link: %w", err)
	}
	if first, visited := w.seen[resolved]; visited {
		return fmt.Errorf("it is the same file as %s", first)
	}
	w.seen[resolved] = path
	info, err := os.Stat(resolved)
	if err != nil {
		return err
	}
	switch {
	case info.IsDir():
		w.folders[resolved] = struct{}{}
		entries, err := os.ReadDir(path) // sorted by name
		for _, entry := range entries {
			if !skipped(entry.Name()) {
				w.visit(filepath.Join(path, entry.Name()))
			}
		}
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("it is not a regular file but %s", info.Mode().Type())
	case info.Mode()&0o111 == 0 && !strings.HasSuffix(path, ".exe"):
		return fmt.Errorf("it is not executable, its mode is %s", info.Mode())
	}
	w.folders[filepath.Dir(resolved)] = struct{}{}
	w.found.files = append(w.found.files, File{Path: path, Identity: process.IdentityOf(info)})
	return nil
}

// skipped reports whether a name belongs to a hidden or unfinished file, or to the lock.
func skipped(name string) bool {
	if strings.HasPrefix(name, ".") || name == pluginlock.FileName {
		return true
	}
	for _, end := range []string{".tmp", ".part", ".swp", "~"} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return false
}
