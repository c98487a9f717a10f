package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/klauspost/compress/gzip"
)

// manifestItems is the number of items in the manifest of the benchmarks.
const manifestItems = 1_000_000

// manifestWork measures a program that writes and reads the manifest, each in processes of their own.
type manifestWork struct{ dir, program, file string }

func newManifestWork(ctx context.Context) (*manifestWork, error) {
	dir, err := os.MkdirTemp("", "cleat-bench-")
	if err != nil {
		return nil, err
	}
	w := &manifestWork{dir: dir, program: filepath.Join(dir, "manifestwork"), file: filepath.Join(dir, "manifest.json.gz")}
	return w, build(ctx, "manifestwork", w.program)
}

func (w *manifestWork) close() error { return os.RemoveAll(w.dir) }

func (w *manifestWork) write(ctx context.Context) (seconds, peak float64, err error) {
	return w.measure(ctx, "write", w.file, fmt.Sprint(manifestItems))
}

func (w *manifestWork) read(ctx context.Context) (seconds, peak float64, err error) {
	return w.measure(ctx, "read", w.file)
}

// measure returns the seconds and the MB that a process has printed.
func (w *manifestWork) measure(ctx context.Context, args ...string) (seconds, peak float64, err error) {
	command := exec.CommandContext(ctx, w.program, args...)
	command.Stderr = os.Stderr
	out, err := command.Output()
	if err != nil {
		return 0, 0, fmt.Errorf("%s a manifest: %w", args[0], err)
	}
	if _, err := fmt.Sscan(string(out), &seconds, &peak); err != nil {
		return 0, 0, fmt.Errorf("%s a manifest printed %q: %w", args[0], out, err)
	}
	return seconds, peak * 1024 / 1e6, nil
}

// manifestMillion reports the cost of writing and reading a manifest of a million items: manifest_million_rss, the
// larger peak of resident memory of the two processes in MB; manifest_million_seconds, the sum of their times; and
// manifest_bytes_over_gzip, its size divided by the size of the values of the same fields, without their names, in one
// gzip stream.
func manifestMillion(ctx context.Context, _ string, report func(string, float64)) (err error) {
	w, err := newManifestWork(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	var memory, seconds []float64
	for range runs {
		writing, writer, err := w.write(ctx)
		if err != nil {
			return err
		}
		reading, reader, err := w.read(ctx)
		if err != nil {
			return err
		}
		say("%d items: written in %.1f s with %.0f MB, read in %.1f s with %.0f MB", manifestItems, writing, writer, reading,
			reader)
		memory, seconds = append(memory, max(writer, reader)), append(seconds, writing+reading)
	}
	report("manifest_million_rss", median(memory))
	report("manifest_million_seconds", median(seconds))
	info, err := os.Stat(w.file)
	if err != nil {
		return err
	}
	alone, err := w.valuesAlone(ctx)
	if err != nil {
		return err
	}
	say("%d items: manifest %d bytes, the values alone %d bytes", manifestItems, info.Size(), alone)
	report("manifest_bytes_over_gzip", float64(info.Size())/float64(alone))
	return nil
}

// valuesAlone returns the compressed size of the values of all fields of all items.
func (w *manifestWork) valuesAlone(ctx context.Context) (size int64, err error) {
	var out counter
	compressor := gzip.NewWriter(&out)
	command := exec.CommandContext(ctx, w.program, "values", w.file)
	command.Stdout, command.Stderr = io.Writer(compressor), os.Stderr
	if err := command.Run(); err != nil {
		return 0, fmt.Errorf("values of a manifest: %w", err)
	}
	err = compressor.Close()
	return int64(out), err
}
