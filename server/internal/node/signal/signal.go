// Package signal is how a node agent reports the result of a restore to a pod: by a file in a directory that the init
// container restore-wait of the pod mounts.
//
//	DIRECTORY/.velero/UID         the data is restored; UID is the UID of the Restore, and the file is Velero's
//	DIRECTORY/.velero/UID.failed  the data is not restored; the file has the reason
//
// In the pods of this server, DIRECTORY is an empty volume of its own (podclaims.WaitVolume), with one file for all
// volumes of the pod. So neither the agent nor the init container needs the volumes for it, which may be full,
// read-only, or readable by another user only. In the pods of Velero, which have no such volume, DIRECTORY is each
// volume that is restored. An agent of Velero writes its files into these volumes as well, and Wait accepts them.
//
// Whoever may write to the pods of a namespace can write a file, or make a pod that does not wait: that concerns only
// pods of their own.
//
// The package imports the standard library only.
package signal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	directory = ".velero"
	suffix    = ".failed"
	pause     = time.Second
)

// Restored marks a volume as restored by a restore. It removes the marks of earlier restores, which are part of the
// data.
func Restored(volume *os.Root, restore string) error { return write(volume, restore, "") }

// IsRestored reports whether a restore has marked a volume, and nobody has removed the mark.
func IsRestored(volume *os.Root, restore string) bool {
	if restore == "" || restore != filepath.Base(restore) {
		return false
	}
	_, err := volume.Lstat(filepath.Join(directory, restore))
	return err == nil
}

// Failed marks a volume whose data could not be restored, with a sentence that says which, and why.
func Failed(volume *os.Root, restore, what string) error { return write(volume, restore+suffix, what) }

// write writes a mark. A pod may write to the volume at the same time. Its links do not lead out of the volume, and
// its files are not opened.
func write(volume *os.Root, name, text string) error {
	if name == suffix || name != filepath.Base(name) {
		return fmt.Errorf("%q is not the UID of a Restore", name)
	}
	if err := volume.RemoveAll(directory); err != nil {
		return fmt.Errorf("remove %s: %w", filepath.Join(volume.Name(), directory), err)
	}
	if err := volume.Mkdir(directory, 0o755); err != nil {
		return err
	}
	mark, err := volume.OpenFile(filepath.Join(directory, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = mark.WriteString(text)
	return errors.Join(err, mark.Close())
}

// Remove removes the mark of Restored from a volume, if the restore has set one: the pod may lack the permission.
func Remove(volume *os.Root, restore string) error {
	if restore == "" || restore != filepath.Base(restore) {
		return fmt.Errorf("%q is not the UID of a Restore", restore)
	}
	if _, err := volume.Lstat(filepath.Join(directory, restore)); err != nil {
		return nil //nolint:nilerr // the pod has removed it
	}
	return volume.RemoveAll(directory)
}

// Wait waits until a restore has restored the data of a pod: until all directories in root have its mark, or all those
// in volumes, which an agent of Velero marks. It returns an error when data could not be restored, or when ctx ends.
// Wait calls tell with the state for which it waits, whenever that changes.
func Wait(ctx context.Context, root, volumes, restore string, tell func(string)) error {
	told := ""
	for {
		lacking, err := unmarked(root, restore)
		if err != nil || lacking != nil && len(lacking) == 0 {
			return err
		}
		// Without access to a volume, it is not known that it has a mark.
		if others, err := unmarked(volumes, restore); err == nil && others != nil {
			if lacking = others; len(others) == 0 {
				return nil
			}
		}
		if waits := "waits for the data of " + strings.Join(lacking, ", "); waits != told {
			tell(waits)
			told = waits
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%w: %s", context.Cause(ctx), told)
		}
	}
}

// unmarked returns the volumes in a directory that do not have the mark of a restore. It is nil if there are no
// volumes.
func unmarked(root, restore string) (volumes []string, err error) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		if volumes == nil {
			volumes = []string{}
		}
		marked, err := isMarked(filepath.Join(root, entry.Name()), restore)
		if err != nil {
			return nil, err
		}
		if !marked {
			volumes = append(volumes, entry.Name())
		}
	}
	return volumes, nil
}

// isMarked reports whether a volume is restored. Links in it do not lead out of it.
func isMarked(path, restore string) (bool, error) {
	volume, err := os.OpenRoot(path)
	if errors.Is(err, fs.ErrPermission) { // passing the directory may be permitted
		_, err = os.Lstat(filepath.Join(path, directory, restore))
		return err == nil, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = volume.Close() }() // a directory
	why, err := volume.ReadFile(filepath.Join(directory, restore+suffix))
	switch {
	case err == nil:
		return false, fmt.Errorf("%s; delete the pod, and restore it again", why)
	case !errors.Is(err, fs.ErrNotExist):
		return false, err
	}
	_, err = volume.Lstat(filepath.Join(directory, restore))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
