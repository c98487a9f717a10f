package volume

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/kopia/kopia/fs"
	"github.com/kopia/kopia/fs/virtualfs"
)

// deviceFile is the one file in the snapshot of a block device.
const deviceFile = "block-device"

var zeros [hole]byte

func isZero(data []byte) bool { return bytes.Equal(data, zeros[:len(data)]) }

// sizeOf returns the size of a block device, or of a file with the content of one.
func sizeOf(device *os.File) (int64, error) {
	info, err := device.Stat()
	if err != nil {
		return 0, err
	}
	if !info.Mode().IsRegular() && info.Mode().Type() != os.ModeDevice {
		return 0, fmt.Errorf("volume %s is not a block device", device.Name())
	}
	size, err := device.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, err
	}
	_, err = device.Seek(0, io.SeekStart)
	return size, err
}

// Device returns the root of a volume that is a block device, and its size.
func Device(path string) (fs.Directory, int64, error) {
	opened, err := os.Open(path)
	if err != nil {
		return nil, 0, &Error{err}
	}
	defer func() { _ = opened.Close() }()
	size, err := sizeOf(opened)
	if err != nil {
		return nil, 0, &Error{err}
	}
	content := &device{path: path, size: size, read: time.Now()}
	return virtualfs.NewStaticDirectory(deviceFile, []fs.Entry{content}), size, nil
}

// device implements fs.File.
type device struct {
	path string
	size int64
	read time.Time
}

func (d *device) Name() string                { return deviceFile }
func (d *device) Size() int64                 { return d.size }
func (d *device) Mode() os.FileMode           { return 0o600 }
func (d *device) ModTime() time.Time          { return d.read }
func (d *device) IsDir() bool                 { return false }
func (d *device) Sys() any                    { return nil }
func (d *device) Owner() fs.OwnerInfo         { return fs.OwnerInfo{} }
func (d *device) Device() fs.DeviceInfo       { return fs.DeviceInfo{} }
func (d *device) LocalFilesystemPath() string { return "" }
func (d *device) Close()                      {}

// Open implements fs.File.
func (d *device) Open(context.Context) (fs.Reader, error) {
	opened, err := os.Open(d.path)
	if err != nil {
		return nil, err
	}
	return &content{File: opened, of: d, release: func() {}}, nil
}

// TooSmallError is the error for a device that is smaller than a snapshot.
type TooSmallError struct{ Has, Needs int64 }

// Error implements error.
func (e *TooSmallError) Error() string {
	return fmt.Sprintf("the volume has %d bytes, the snapshot %d; want a volume that is not smaller", e.Has, e.Needs)
}

// ErrFiles is the error for a snapshot that is not one of a block device.
var ErrFiles = errors.New("the snapshot is not one of a block device")

// WriteDevice writes the snapshot of a block device to one, and returns how many bytes it has: size, or all that are
// stored if size is 0.
func WriteDevice(
	ctx context.Context, path string, root fs.Directory, size int64, progress func(done, total int64),
) (done int64, err error) {
	all, err := fs.GetAllEntries(ctx, root)
	if err != nil {
		return 0, fmt.Errorf("read the root of the snapshot: %w", err)
	}
	if len(all) != 1 {
		return 0, fmt.Errorf("%w: it has %d objects in its root", ErrFiles, len(all))
	}
	stored, ok := all[0].(fs.File)
	if !ok {
		return 0, fmt.Errorf("%w: its root has %q", ErrFiles, all[0].Name())
	}
	if size == 0 {
		size = stored.Size()
	}
	if stored.Size() < size {
		return 0, fmt.Errorf("%w: it has %d bytes of the %d of the device", ErrFiles, stored.Size(), size)
	}
	opened, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return 0, &Error{err}
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	has, err := sizeOf(opened)
	if err != nil {
		return 0, &Error{err}
	}
	if has < size {
		return 0, &TooSmallError{has, size}
	}
	content, err := stored.Open(ctx)
	if err != nil {
		return 0, fmt.Errorf("open the snapshot: %w", err)
	}
	defer func() { _ = content.Close() }()
	whole := &Target{} // whose blocks of zeros are written: the device may have others
	if err := whole.fill(ctx, opened, io.LimitReader(content, size), size, func(n int64) {
		done += n
		progress(done, size)
	}); err != nil {
		return 0, err
	}
	return done, problem("sync", path, opened.Sync())
}
