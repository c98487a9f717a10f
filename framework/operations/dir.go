package operations

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Dir is a Store that keeps each operation in a file of a directory, for processes on one machine. A file is written
// and synced under a temporary name and then renamed, so a crash or a full disk leaves either the old state or the new
// one. Processes lock an operation while they change it; the lock ends with the process that holds it.
type Dir struct {
	path  string
	turns turns
}

var _ Store = (*Dir)(nil)

// OpenDir opens a directory, which it creates if needed. It returns an error if the directory is not writable.
func OpenDir(path string) (*Dir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("keep operations in %s: %w", path, err)
	}
	probe, err := os.CreateTemp(path, ".probe-*")
	if err != nil {
		return nil, fmt.Errorf("keep operations in %s: %w", path, err)
	}
	_ = probe.Close()
	if err := os.Remove(probe.Name()); err != nil {
		return nil, fmt.Errorf("keep operations in %s: %w", path, err)
	}
	return &Dir{path: path}, nil
}

// versioned is the content of a file.
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

// change locks an operation, passes its current state, or the error of reading it, to next, and stores the operation
// with the version that next returns.
func (d *Dir) change(
	ctx context.Context, operation *Operation, next func(current *Operation, err error) (int64, error),
) error {
	id := operation.ID
	if !idPattern.MatchString(id) {
		return fmt.Errorf("keep operation %q: want an id that ID makes", id)
	}
	claim, err := d.claim(ctx, id)
	if err != nil {
		return fmt.Errorf("keep operation %s: %w", id, err)
	}
	defer claim.release()
	version, err := next(d.read(id))
	if err != nil {
		return fmt.Errorf("keep operation %s: %w", id, err)
	}
	content, err := Encode(operation)
	if err != nil {
		return err
	}
	if content, err = json.Marshal(versioned{Version: version, Operation: content}); err != nil {
		return fmt.Errorf("keep operation %s: %w", id, err)
	}
	if err := claim.replace(append(content, '\n')); err != nil {
		return fmt.Errorf("keep operation %s: %w", id, err)
	}
	operation.Version = strconv.FormatInt(version, 10)
	return nil
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

// read reads the file of an operation. It needs no lock, because files are replaced as a whole.
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
		return nil, fmt.Errorf("it holds operation %s, want %s", operation.ID, id)
	}
	operation.Version = strconv.FormatInt(v.Version, 10)
	return operation, nil
}

// Delete implements Store.
func (d *Dir) Delete(ctx context.Context, id string) error {
	if !idPattern.MatchString(id) {
		return nil
	}
	claim, err := d.claim(ctx, id)
	if err != nil {
		return fmt.Errorf("delete operation %s: %w", id, err)
	}
	defer claim.release()
	if err := os.Remove(d.file(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("delete operation %s: %w", id, err)
	}
	if err := d.sync(); err != nil {
		return fmt.Errorf("delete operation %s: %w", id, err)
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

// sync makes changes of the directory's entries durable.
func (d *Dir) sync() error {
	dir, err := os.Open(d.path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
