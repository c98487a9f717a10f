package plugindir

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/versioning"
)

// File is a file of a plugin directory.
type File struct {
	Path    string
	Listed  []versioning.Listed // by its process
	Problem string              // why the whole file is unusable; empty if it is not
	Partial []string            // problems of some of its plugins
}

// Files returns the files that a host found, in its order.
func Files(host *pluginhost.Host) []File {
	var files []File
	at := map[string]int{}
	for _, entry := range host.Entries() {
		if entry.BuiltIn {
			continue
		}
		i, seen := at[entry.Command]
		if !seen {
			i = len(files)
			at[entry.Command] = i
			files = append(files, File{Path: entry.Command})
		}
		file := &files[i]
		switch {
		case entry.Name == "" && entry.Kind == "":
			file.Problem = entry.Quarantined // empty for one that lists nothing
		default:
			file.Listed = append(file.Listed, versioning.Listed{Kind: entry.Kind, Name: entry.Name})
			if entry.Quarantined != "" {
				file.Partial = append(file.Partial, entry.Quarantined)
			}
		}
	}
	return files
}

// CheckExecutable returns an error if the file at path cannot be a plugin.
func CheckExecutable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return fmt.Errorf("%s is a directory, not a plugin", path)
	case info.Mode()&0o111 == 0 && filepath.Ext(path) != ".exe":
		return fmt.Errorf("%s is not a plugin: it is not executable (chmod +x %s)", path, path)
	}
	return nil
}
