// Package signal is how a node agent reports the result of a restore to a pod: by a file in each volume, for which the
// init container restore-wait of the pod waits.
//
//	VOLUME/.velero/UID         the data is restored; UID is the UID of the Restore, and the file is Velero's
//	VOLUME/.velero/UID.failed  the data is not restored; the file has the reason
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

// Failed marks a volume whose data could not be restored, with the reason.
func Failed(volume *os.Root, restore, why string) error { return write(volume, restore+suffix, why) }

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

// Wait waits until a restore has restored the data of all volumes, which are the directories in root. It returns an
// error when one of them could not be restored, or when ctx ends. Wait calls tell with the state for which it waits,
// whenever that changes.
func Wait(ctx context.Context, root, restore string, tell func(string)) error {
	told := ""
	for {
		waits, err := look(root, restore)
		if err != nil || waits == "" {
			return err
		}
		if waits != told {
			tell(waits)
			told = waits
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%w: %s", context.Cause(ctx), waits)
		}
	}
}

// look returns the state for which Wait waits, or "" if the volumes are restored.
func look(root, restore string) (string, error) {
	volumes, err := os.ReadDir(root)
	if err != nil {
		return "", err
	}
	var waits []string
	for _, volume := range volumes {
		if !volume.IsDir() {
			continue
		}
		restored, err := lookAt(filepath.Join(root, volume.Name()), restore)
		if err != nil {
			return "", err
		}
		if !restored {
			waits = append(waits, volume.Name())
		}
	}
	if len(waits) == 0 {
		return "", nil
	}
	return "waits for the data of " + strings.Join(waits, ", "), nil
}

// lookAt reports whether a volume is restored. Links in it do not lead out of it.
func lookAt(path, restore string) (bool, error) {
	volume, err := os.OpenRoot(path)
	if err != nil {
		return false, err
	}
	defer func() { _ = volume.Close() }() // a directory
	why, err := volume.ReadFile(filepath.Join(directory, restore+suffix))
	switch {
	case err == nil:
		return false, fmt.Errorf("the data of volume %s was not restored: %s; delete the pod, and restore it again",
			filepath.Base(path), why)
	case !errors.Is(err, fs.ErrNotExist):
		return false, err
	}
	_, err = volume.Lstat(filepath.Join(directory, restore))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Clean removes the files of restores from the volumes in root, as far as the user of the pod has the permission. The
// agent removes the others.
func Clean(root string) error {
	volumes, err := os.ReadDir(root)
	if err != nil {
		return err
	}
	var failed []error
	for _, volume := range volumes {
		if volume.IsDir() {
			failed = append(failed, os.RemoveAll(filepath.Join(root, volume.Name(), directory)))
		}
	}
	return errors.Join(failed...)
}
