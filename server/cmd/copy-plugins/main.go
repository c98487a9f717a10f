// Command copy-plugins copies the files below a directory to another one: it is what the init container of a plugin
// image runs. A server that looks meanwhile sees each file whole, or not at all.
package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
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

// copyAll copies the files below from into the directory to, in the order of their names. No link leads out of either:
// the images of other plugins write to the second one as well.
func copyAll(from, to string) error {
	target, err := os.OpenRoot(to)
	if err != nil {
		return fmt.Errorf("mount the plugin directory of the server at %s: %w", to, err)
	}
	defer target.Close()
	source, err := os.OpenRoot(from)
	if err != nil {
		return err
	}
	defer source.Close()
	return fs.WalkDir(source.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return target.MkdirAll(name, 0o755)
		}
		return copyFile(source, target, name)
	})
}

// copyFile writes the copy under a name that servers leave alone, and then gives it its own.
func copyFile(from, to *os.Root, name string) (err error) {
	info, err := from.Stat(name)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file but %s", name, info.Mode().Type())
	}
	source, err := from.Open(name)
	if err != nil {
		return err
	}
	defer source.Close()
	part := path.Join(path.Dir(name), "."+path.Base(name)+".part")
	if err := to.RemoveAll(part); err != nil { // of a container that was killed
		return err
	}
	target, err := to.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	if err = errors.Join(err, target.Sync(), target.Close()); err != nil {
		return errors.Join(err, to.Remove(part))
	}
	return to.Rename(part, name)
}
