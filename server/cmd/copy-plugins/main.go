// Command copy-plugins copies the files below a directory to another one: it is what the init container of a plugin image runs. A server
// that looks meanwhile sees each file whole, or not at all.
package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: copy-plugins FROM TO")
		os.Exit(2)
	}
	if err := copyAll(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintf(os.Stderr, "copy-plugins: %v\n", err)
		os.Exit(1)
	}
}

// copyAll copies the files below from into the directory to, in the order of their names.
func copyAll(from, to string) error {
	if _, err := os.Stat(to); err != nil {
		return fmt.Errorf("mount the plugin directory of the server at %s: %w", to, err)
	}
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, relative)
		if entry.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		return copyFile(path, target)
	})
}

// copyFile writes the copy under a name that servers leave alone, and then gives it its own.
func copyFile(from, to string) (err error) {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	info, err := source.Stat()
	if err != nil {
		return err
	}
	part := filepath.Join(filepath.Dir(to), "."+filepath.Base(to)+".part")
	if err := os.RemoveAll(part); err != nil { // of a container that was killed
		return err
	}
	target, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	if err = errors.Join(err, target.Sync(), target.Close()); err != nil {
		return errors.Join(err, os.Remove(part))
	}
	return os.Rename(part, to)
}
