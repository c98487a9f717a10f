package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// errStillLocked means that another process holds a lock.
var errStillLocked = errors.New("locked by another process")

// tryLock locks an open file, or returns errStillLocked. The kernel releases the
// lock when the file is closed or the process exits.
func tryLock(file *os.File) error {
	err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errStillLocked
	}
	if err != nil {
		return fmt.Errorf("locking %s: %w", file.Name(), err)
	}
	return nil
}

// lockFile creates path if needed and locks it. It calls waiting once if another
// process holds the lock. Closing the file releases the lock.
func lockFile(ctx context.Context, path string, waiting func()) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening a lock: %w", err)
	}
	err = tryLock(file)
	if errors.Is(err, errStillLocked) {
		waiting()
		err = awaitLock(ctx, file)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// awaitLock waits for the lock on file and takes it.
func awaitLock(ctx context.Context, file *os.File) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		if err := tryLock(file); !errors.Is(err, errStillLocked) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the lock %s: %w", file.Name(), context.Cause(ctx))
		case <-tick.C:
		}
	}
}
