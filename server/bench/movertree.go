package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// treeSize is how many files of each kind a tree has: small ones, large ones, and those with holes.
type treeSize struct{ small, large, holes int }

// fullTree has 2 GB of content beside the holes.
var fullTree = treeSize{small: 50_000, large: 12, holes: 5}

const (
	moverSmallSize = 16 << 10 // on average
	moverLargeSize = 100 << 20
	moverHoleSize  = 400 << 20
)

// growTree writes a tree. Its content compresses to about half.
func growTree(dir string, size treeSize, seed uint64) error {
	content := rand.NewChaCha8([32]byte{byte(seed), 1})
	piece := func(size int) []byte {
		all := make([]byte, size)
		_, _ = content.Read(all[:size/2]) // never fails; the rest are zeros
		return all
	}
	sizes := rand.New(rand.NewPCG(seed, 2)) //nolint:gosec // the sizes of files
	for i := range size.small {
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
	for i := range size.large {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint("large", i)), piece(moverLargeSize), 0o600); err != nil {
			return err
		}
	}
	for i := range size.holes {
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

// roomyDir makes a directory in memory if a number of bytes fits there, or else below dir.
func roomyDir(dir string, bytes uint64) (string, error) {
	const memory = "/dev/shm"
	var room syscall.Statfs_t
	if syscall.Statfs(memory, &room) == nil && room.Bavail*uint64(room.Bsize) >= bytes { //nolint:gosec // it is positive
		dir = memory
	}
	return os.MkdirTemp(dir, "cleat-bench-")
}

// moverPair holds the times of a bare program and the mover for the same work, one call after the other.
type moverPair struct{ bare, ours []time.Duration }

// measure measures both sides once, in alternating order, and empties directories after each side. Earlier writes are
// then on the disk, so that no side waits for the writes of the other.
func (p *moverPair) measure(bare, ours func() error, results ...string) error {
	took := func(to *[]time.Duration, work func() error) error {
		syscall.Sync()
		began := time.Now()
		err := work()
		*to = append(*to, time.Since(began))
		for _, dir := range results {
			err = errors.Join(err, os.RemoveAll(dir), os.Mkdir(dir, 0o750))
		}
		return err
	}
	if len(p.bare)%2 == 1 {
		return errors.Join(took(&p.ours, ours), took(&p.bare, bare))
	}
	return errors.Join(took(&p.bare, bare), took(&p.ours, ours))
}

// ratio returns the median of the ratios of the pairs.
func (p *moverPair) ratio() float64 {
	ratios := make([]float64, len(p.bare))
	for i := range ratios {
		ratios[i] = p.ours[i].Seconds() / p.bare[i].Seconds()
	}
	return median(ratios)
}

// String returns the seconds of each pair.
func (p *moverPair) String() string {
	var text strings.Builder
	for i := range p.bare {
		fmt.Fprintf(&text, "%.2f/%.2f ", p.ours[i].Seconds(), p.bare[i].Seconds())
	}
	return text.String()
}
