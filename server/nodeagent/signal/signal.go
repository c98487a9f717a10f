// Package signal is how a node agent tells a pod what became of its volumes: by a file in each volume, for which the init container
// restore-wait of the pod waits.
//
//	VOLUME/.velero/UID         the data is restored; UID is that of the Restore, and the file is Velero's
//	VOLUME/.velero/UID.failed  it is not, and the text says why
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

// Restored marks a volume as restored by a restore. It removes the marks of former restores, which came with the data.
func Restored(volume, restore string) error { return write(volume, restore, "") }

// Failed marks a volume whose data a restore could not restore, with the reason.
func Failed(volume, restore, why string) error { return write(volume, restore+suffix, why) }

func write(volume, name, text string) error {
	if name == suffix || name != filepath.Base(name) {
		return fmt.Errorf("%q is not the UID of a Restore", name)
	}
	dir := filepath.Join(volume, directory)
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644)
}

// Wait waits until a restore has restored the data of all volumes, which are the directories in root. It returns an error when the restore
// of one of them has failed, or when ctx ends. tell is called with what Wait waits for, whenever that changes.
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

// look returns what there is to wait for, "" if the volumes are restored.
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
		at := filepath.Join(root, volume.Name(), directory, restore)
		why, err := os.ReadFile(at + suffix)
		switch {
		case err == nil:
			return "", fmt.Errorf("the data of volume %s was not restored: %s; delete the pod, and restore it again", volume.Name(), why)
		case !errors.Is(err, fs.ErrNotExist):
			return "", err
		}
		if _, err := os.Stat(at); errors.Is(err, fs.ErrNotExist) {
			waits = append(waits, volume.Name())
		} else if err != nil {
			return "", err
		}
	}
	if len(waits) == 0 {
		return "", nil
	}
	return "waits for the data of " + strings.Join(waits, ", "), nil
}

// Clean removes the files of restores from the volumes in root. They are of no use any more, and may belong to another user.
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
