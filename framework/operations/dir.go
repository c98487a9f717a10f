package operations

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// DefaultDir is where a plugin of that name may keep its operations: below the folder that the environment names in
// CLEAT_STATE_DIR, else in VELERO_SCRATCH_DIR, which servers have, else below the folder for temporary files. It lives as
// long as that folder does.
func DefaultDir(plugin string) string {
	root := cmp.Or(os.Getenv("CLEAT_STATE_DIR"), os.Getenv("VELERO_SCRATCH_DIR"), os.TempDir())
	return filepath.Join(root, "plugin-operations", filepath.Clean("/"+filepath.FromSlash(plugin)))
}

// Dir is a Store that keeps each operation as a file of a directory, for processes of one machine. A file is written
// whole and synced under another name before it gets its own, so that neither a kill nor a full disk leaves half of
// one. Changes are made under a lock of the directory, which ends with the process that has it.
type Dir struct {
	path string
}

var _ Store = (*Dir)(nil)

// OpenDir opens a directory, which is made if it is not there. It tries whether it can be written.
func OpenDir(path string) (*Dir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("keep operations in %s: %w", path, err)
	}
	d := &Dir{path: path}
	probe, err := os.CreateTemp(path, ".probe-*")
	if err != nil {
		return nil, fmt.Errorf("keep operations in %s: %w", path, err)
	}
	_ = probe.Close()
	if err := os.Remove(probe.Name()); err != nil {
		return nil, fmt.Errorf("keep operations in %s: %w", path, err)
	}
	return d, nil
}

// versioned is what is in a file.
type versioned struct {
	Version   int64           `json:"version"`
	Operation json.RawMessage `json:"operation"`
}

func (d *Dir) file(id string) string { return filepath.Join(d.path, id+".json") }

// Create implements Store.
func (d *Dir) Create(ctx context.Context, operation *Operation) error {
	return d.change(ctx, operation, func(_ *Operation, err error) (int64, error) {
		if err == nil || errors.Is(err, ErrDamaged) {
			return 0, ErrExists
		}
		if errors.Is(err, ErrNotFound) {
			return 1, nil
		}
		return 0, err
	})
}

// Update implements Store.
func (d *Dir) Update(ctx context.Context, operation *Operation) error {
	return d.change(ctx, operation, func(current *Operation, err error) (int64, error) {
		if err != nil {
			return 0, err
		}
		if current.Version != operation.Version {
			return 0, ErrConflict
		}
		version, err := strconv.ParseInt(current.Version, 10, 64)
		return version + 1, err
	})
}

// change writes an operation when next, which sees what is there, gives it a version.
func (d *Dir) change(ctx context.Context, operation *Operation, next func(current *Operation, err error) (int64, error)) error {
	if !idPattern.MatchString(operation.ID) {
		return fmt.Errorf("keep operation %q: want an id that ID makes", operation.ID)
	}
	unlock, err := d.lock(ctx)
	if err != nil {
		return fmt.Errorf("keep operation %s: %w", operation.ID, err)
	}
	defer unlock()
	version, err := next(d.read(operation.ID))
	if err != nil {
		return fmt.Errorf("keep operation %s: %w", operation.ID, err)
	}
	content, err := Encode(operation)
	if err != nil {
		return err
	}
	if content, err = json.Marshal(versioned{Version: version, Operation: content}); err != nil {
		return fmt.Errorf("keep operation %s: %w", operation.ID, err)
	}
	if err := d.write(operation.ID, append(content, '\n')); err != nil {
		return fmt.Errorf("keep operation %s: %w", operation.ID, err)
	}
	operation.Version = strconv.FormatInt(version, 10)
	return nil
}

// write replaces the file of an operation. The lock is held.
func (d *Dir) write(id string, content []byte) error {
	part, err := os.OpenFile(d.part(id), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = part.Write(content)
	if err = errors.Join(err, part.Sync(), part.Close()); err == nil {
		err = os.Rename(part.Name(), d.file(id))
	}
	if err != nil {
		_ = os.Remove(part.Name())
		return err
	}
	return d.sync()
}

// part is the file of an operation while it is written.
func (d *Dir) part(id string) string { return filepath.Join(d.path, "."+id+".part") }

// sync makes the names in the directory last.
func (d *Dir) sync() error {
	dir, err := os.Open(d.path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// Get implements Store.
func (d *Dir) Get(_ context.Context, id string) (*Operation, error) {
	if !idPattern.MatchString(id) {
		return nil, fmt.Errorf("read operation %q: %w", id, ErrNotFound)
	}
	operation, err := d.read(id)
	if err != nil {
		return nil, fmt.Errorf("read operation %s: %w", id, err)
	}
	return operation, nil
}

// read needs no lock: a file is replaced as a whole.
func (d *Dir) read(id string) (*Operation, error) {
	content, err := os.ReadFile(d.file(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w in %s", ErrNotFound, d.path)
	}
	if err != nil {
		return nil, err
	}
	operation, err := decodeFile(id, content)
	if err != nil {
		return nil, fmt.Errorf("%w: file %s: %w", ErrDamaged, d.file(id), err)
	}
	return operation, nil
}

// decodeFile is the operation that a file holds which is named after id.
func decodeFile(id string, content []byte) (*Operation, error) {
	var v versioned
	if err := json.Unmarshal(content, &v); err != nil {
		return nil, err
	}
	if v.Version < 1 {
		return nil, fmt.Errorf("version is %d, want 1 or more", v.Version)
	}
	operation, err := Decode(v.Operation)
	if err != nil {
		return nil, err
	}
	if operation.ID != id {
		return nil, fmt.Errorf("it holds operation %s", operation.ID)
	}
	operation.Version = strconv.FormatInt(v.Version, 10)
	return operation, nil
}

// Delete implements Store.
func (d *Dir) Delete(ctx context.Context, id string) error {
	if !idPattern.MatchString(id) {
		return nil
	}
	unlock, err := d.lock(ctx)
	if err != nil {
		return fmt.Errorf("forget operation %s: %w", id, err)
	}
	defer unlock()
	for _, path := range []string{d.part(id), d.file(id)} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("forget operation %s: %w", id, err)
		}
	}
	if err := d.sync(); err != nil {
		return fmt.Errorf("forget operation %s: %w", id, err)
	}
	return nil
}

// List implements Store.
func (d *Dir) List(context.Context) ([]string, error) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil, fmt.Errorf("list operations: %w", err)
	}
	var ids []string
	for _, entry := range entries {
		if id, isFile := strings.CutSuffix(entry.Name(), ".json"); isFile && idPattern.MatchString(id) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// lock waits until no process, and no other call, changes the directory, or until ctx ends.
func (d *Dir) lock(ctx context.Context) (unlock func(), err error) {
	file, err := os.OpenFile(filepath.Join(d.path, ".lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	const longest = 50 * time.Millisecond
	for wait := time.Millisecond; ; wait = min(2*wait, longest) {
		taken, err := tryLock(file)
		if err != nil {
			_ = file.Close()
			return nil, fmt.Errorf("lock %s: %w", d.path, err)
		}
		if taken {
			return func() { _ = file.Close() }, nil // which unlocks it
		}
		select {
		case <-ctx.Done():
			_ = file.Close()
			return nil, fmt.Errorf("wait for the lock of %s: %w", d.path, ctx.Err())
		case <-time.After(wait):
		}
	}
}
