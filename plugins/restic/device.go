package restic

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"github.com/cleat-dev/cleat/framework"
	dmv1 "github.com/cleat-dev/cleat/framework/datamover/v1"
	"github.com/cleat-dev/cleat/plugins/restic/internal/program"
)

// deviceFile is the one file in the snapshot of a block device.
const deviceFile = "block-device"

// openDevice opens a block device, or a file with the content of one, and returns its size in bytes.
func openDevice(path string, flag int) (*os.File, int64, error) {
	file, err := os.OpenFile(path, flag, 0)
	if err != nil {
		return nil, 0, fmt.Errorf("volume: %w", err)
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() && info.Mode().Type() != os.ModeDevice {
		err = framework.Invalid("volume %s is not a block device", path)
	}
	var size int64
	if err == nil {
		size, err = file.Seek(0, io.SeekEnd)
	}
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, 0, errors.Join(err, file.Close())
	}
	return file, size, nil
}

// restoreDevice writes the content of a device.
func (s *session) restoreDevice(
	ctx context.Context, id string, input *dmv1.RestoreInput,
) (_ *dmv1.RestoreOutput, err error) {
	device, size, err := openDevice(input.Volume.Path, os.O_WRONLY)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, device.Close()) }()
	if input.Bytes > size && size > 0 {
		return nil, framework.Invalid("volume %s has %d bytes, the snapshot %d; want a volume that is not smaller",
			input.Volume.Path, size, input.Bytes)
	}
	out := &written{to: device}
	err = s.waitForLocks(ctx, func() error {
		if _, err := device.Seek(0, io.SeekStart); err != nil {
			return err
		}
		out.bytes.Store(0)
		return s.once(ctx, program.Command{
			Args: []string{"dump", id, "/" + deviceFile}, Stdout: out,
			Beat: func(program.Usage) {
				s.report(func(p *dmv1.Progress) {
					p.DoneBytes, p.TotalBytes = out.bytes.Load(), max(input.Bytes, out.bytes.Load())
				})
			},
		})
	})
	if out.err != nil {
		return nil, fmt.Errorf("write volume %s: %w", input.Volume.Path, out.err)
	}
	if err != nil {
		return nil, err
	}
	return &dmv1.RestoreOutput{Bytes: out.bytes.Load(), Warnings: s.Warned()}, device.Sync()
}

// written counts what is written.
type written struct {
	to    io.Writer
	bytes atomic.Int64
	err   error // the first one; read when the command has ended
}

// Write implements io.Writer.
func (w *written) Write(p []byte) (int, error) {
	n, err := w.to.Write(p)
	w.bytes.Add(int64(n))
	if w.err == nil {
		w.err = err
	}
	return n, err
}
