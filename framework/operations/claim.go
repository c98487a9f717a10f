package operations

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// claim is the exclusive right to change one operation of a Dir. It locks the operation's part file, in which the next
// state is written before the file is renamed.
type claim struct {
	dir     *Dir
	id      string
	part    *os.File
	renamed bool
	leave   func()
}

// part returns the path of the part file of an operation.
func (d *Dir) part(id string) string { return filepath.Join(d.path, "."+id+".part") }

// claim waits until no other caller and no other process changes the operation, or until ctx ends. The callers of this
// process take turns; the kernel decides between processes.
func (d *Dir) claim(ctx context.Context, id string) (*claim, error) {
	leave, err := d.turns.enter(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("wait for other callers: %w", err)
	}
	type result struct {
		claim *claim
		err   error
	}
	locked := make(chan result, 1)
	go func() {
		part, err := openLocked(d.part(id))
		locked <- result{&claim{dir: d, id: id, part: part, leave: leave}, err}
	}()
	select {
	case r := <-locked:
		if r.err != nil {
			leave()
			return nil, r.err
		}
		return r.claim, nil
	case <-ctx.Done():
		// The kernel's wait for the lock cannot be interrupted. The caller's turn goes on until it ends, so at most one
		// goroutine per operation waits like this.
		go func() {
			if r := <-locked; r.err != nil {
				leave()
			} else {
				r.claim.release()
			}
		}()
		return nil, fmt.Errorf("wait for the lock of %s: %w", d.part(id), ctx.Err())
	}
}

// openLocked creates the file at path, or opens it, and locks it. The result is empty and still has this path.
func openLocked(path string) (*os.File, error) {
	for {
		file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		err = lockEmpty(file, path)
		if err == nil {
			return file, nil
		}
		_ = file.Close()
		if !errors.Is(err, errReplaced) {
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
	}
}

// errReplaced is returned by lockEmpty when the previous holder of the lock has renamed or removed the file.
var errReplaced = errors.New("the file has been replaced")

// lockEmpty locks file, which was opened at path, and removes the content that a killed process has left in it.
func lockEmpty(file *os.File, path string) error {
	if err := lock(file); err != nil {
		return err
	}
	opened, err := file.Stat()
	if err != nil {
		return err
	}
	current, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return errReplaced
	}
	if err != nil {
		return err
	}
	if !os.SameFile(opened, current) {
		return errReplaced
	}
	if opened.Size() > 0 {
		return file.Truncate(0)
	}
	return nil
}

// replace makes content the state of the operation.
func (c *claim) replace(content []byte) error {
	if _, err := c.part.Write(content); err != nil {
		return err
	}
	if err := c.part.Sync(); err != nil {
		return err
	}
	if err := os.Rename(c.dir.part(c.id), c.dir.file(c.id)); err != nil {
		return err
	}
	c.renamed = true
	return c.dir.sync()
}

func (c *claim) release() {
	if !c.renamed {
		_ = os.Remove(c.dir.part(c.id))
	}
	_ = c.part.Close() // which unlocks it
	c.leave()
}
