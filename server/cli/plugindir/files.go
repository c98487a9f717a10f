package plugindir

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/cleat-dev/cleat/server/pluginhost"
	"github.com/cleat-dev/cleat/versioning"
)

// pluginFile is a file of a plugin directory.
type File struct {
	Path    string
	Listed  []versioning.Listed // what its process lists
	Problem string              // why it cannot be used at all; empty if it can
	Partial []string            // what is wrong with something in it
}

// pluginFiles are the files that a host found, in its order.
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

// checkExecutable says why the file at path cannot be a plugin.
func CheckExecutable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return fmt.Errorf("%s is no plugin but a directory", path)
	case info.Mode()&0o111 == 0 && filepath.Ext(path) != ".exe":
		return fmt.Errorf("%s is no plugin: it is not executable (chmod +x %s)", path, path)
	}
	return nil
}
