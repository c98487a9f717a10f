package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// The tree that is moved: many small files, some large ones, and some with holes; 2 GB of content beside the holes.
const (
	moverSmallFiles = 50_000
	moverSmallSize  = 16 << 10 // on average
	moverLargeFiles = 12
	moverLargeSize  = 100 << 20
	moverHoles      = 5
	moverHoleSize   = 400 << 20
)

// growTree writes the tree. Its content compresses to about half.
func growTree(dir string, seed uint64) error {
	content := rand.NewChaCha8([32]byte{byte(seed), 1})
	piece := func(size int) []byte {
		all := make([]byte, size)
		_, _ = content.Read(all[:size/2]) // never fails; the rest are zeros
		return all
	}
	sizes := rand.New(rand.NewPCG(seed, 2)) //nolint:gosec // the sizes of files
	for i := range moverSmallFiles {
		folder := filepath.Join(dir, fmt.Sprint("d", i/500))
		if i%500 == 0 {
			if err := os.MkdirAll(folder, 0o750); err != nil {
				return err
			}
		}
		if err := os.WriteFile(filepath.Join(folder, fmt.Sprint("f", i)), piece(sizes.IntN(2*moverSmallSize)),
			0o600); err != nil {
			return err
		}
	}
	for i := range moverLargeFiles {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint("large", i)), piece(moverLargeSize), 0o600); err != nil {
			return err
		}
	}
	for i := range moverHoles {
		hole, err := os.Create(filepath.Join(dir, fmt.Sprint("hole", i)))
		if err != nil {
			return err
		}
		_, err = hole.WriteAt(piece(1<<20), moverHoleSize/2)
		if err := errors.Join(err, hole.Truncate(moverHoleSize), hole.Close()); err != nil {
			return err
		}
	}
	return nil
}

// moverTimes is how long one side took in its fastest rounds. The disk makes single rounds differ by a quarter.
type moverTimes struct{ backup, again, restore time.Duration }

// took lowers a time to the duration of work, unless that took longer. What was written before is on the disk then, so
// that no side waits for the writes of another.
func took(to *time.Duration, work func() error) error {
	syscall.Sync()
	began := time.Now()
	err := work()
	if d := time.Since(began); *to == 0 || d < *to {
		*to = d
	}
	return err
}

// restic measures the bare program. It has a password, a cache and a parent, as the mover's has.
func (m *moverTimes) restic(ctx context.Context, program, dir, volume string) error {
	side, err := os.MkdirTemp(dir, "bare-")
	if err != nil {
		return err
	}
	target := filepath.Join(side, "target")
	if err := os.Mkdir(target, 0o750); err != nil {
		return err
	}
	run := func(in string, args ...string) error {
		cmd := exec.CommandContext(ctx, program, append(args, "--repo="+filepath.Join(side, "repository"), "--cache-dir="+
			filepath.Join(side, "cache"), "--json")...)
		cmd.Dir, cmd.Env = in, append(os.Environ(), "RESTIC_PASSWORD=secret", "RESTIC_PROGRESS_FPS=1")
		if output, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("restic %s: %w: %s", args[0], err, output[max(0, len(output)-500):])
		}
		return nil
	}
	return errors.Join(
		run(side, "init"),
		took(&m.backup, func() error { return run(volume, "backup", ".", "--host=velero") }),
		took(&m.again, func() error { return run(volume, "backup", ".", "--host=velero") }),
		took(&m.restore, func() error { return run(target, "restore", "latest", "--target=.") }),
		os.RemoveAll(side),
	)
}
