package pluginhost

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/go-hclog"
)

// findBinaries gives the absolute paths of the executable files below dir, in the order of a directory walk with the
// names sorted in each folder; that is Velero's order, and plugins run in it. A file counts when it has an
// execute bit or its name ends in ".exe". Symbolic links are followed, every file and folder is visited
// once. What is left out is logged with the reason; a missing dir is no error.
func findBinaries(dir string, log hclog.Logger) []string {
	if dir == "" {
		return nil
	}
	root, err := filepath.Abs(dir)
	if err != nil {
		log.Error("cannot find plugins", "dir", dir, "error", err)
		return nil
	}
	if _, err := os.Stat(root); errors.Is(err, fs.ErrNotExist) {
		log.Info("there is no plugin directory, so there are built-in plugins only", "dir", root)
		return nil
	}
	w := walker{log: log, seen: map[string]string{}}
	w.visit(root)
	return w.found
}

type walker struct {
	log   hclog.Logger
	seen  map[string]string // real path to the path under which it was met
	found []string
}

func (w *walker) visit(path string) {
	if err := w.take(path); err != nil {
		w.log.Warn("not a plugin, left out", "path", path, "reason", err)
	}
}

// take adds path if it is a plugin binary and goes on below it if it is a folder. The error is the reason why it
// does neither.
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
		entries, err := os.ReadDir(path) // sorted by name
		for _, entry := range entries {
			w.visit(filepath.Join(path, entry.Name()))
		}
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("it is no regular file but %s", info.Mode().Type())
	case info.Mode()&0o111 == 0 && !strings.HasSuffix(path, ".exe"):
		return fmt.Errorf("it is not executable, its mode is %s", info.Mode())
	}
	w.found = append(w.found, path)
	return nil
}
