package volume

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kopia/kopia/fs"
	"github.com/kopia/kopia/snapshot"
	"github.com/kopia/kopia/snapshot/restore"
	"golang.org/x/sys/unix"
)

// Target writes the files of a snapshot to a volume. It removes what is in the way of each of them, and never follows a
// symbolic link. It implements restore.Output.
type Target struct {
	root     *os.Root
	sparse   bool
	uid, gid int
	before   Before // nil for none
	budget   *Budget
	losses   Losses
}

var _ restore.Output = (*Target)(nil)

// Before is called before objects are written.
type Before interface {
	// Directory is called before the files of a directory are.
	Directory(ctx context.Context, of fs.Directory) error
	// File is called before a file is read.
	File(ctx context.Context, of fs.Entry)
}

// NewTarget opens a volume. With sparse set, blocks of zeros become holes. before may be nil. budget bounds how many
// large files are written at once.
func NewTarget(dir string, sparse bool, before Before, budget *Budget) (*Target, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, &Error{err}
	}
	return &Target{root: root, sparse: sparse, uid: os.Geteuid(), gid: os.Getegid(), before: before, budget: budget}, nil
}

// Sync makes what was written durable.
func (t *Target) Sync() error {
	dir, err := t.root.Open(".")
	if err != nil {
		return &Error{err}
	}
	return problem("sync", ".", errors.Join(unix.Syncfs(int(dir.Fd())), dir.Close()))
}

// Free closes the volume.
func (t *Target) Free() error { return t.root.Close() }

// Warnings returns what could not be restored.
func (t *Target) Warnings() []string { return t.losses.Warnings() }

// Parallelizable implements restore.Output.
func (t *Target) Parallelizable() bool { return true }

// Close implements restore.Output.
func (t *Target) Close(context.Context) error { return nil }

// FileExists implements restore.Output.
func (t *Target) FileExists(context.Context, string, fs.File) bool { return false }

// SymlinkExists implements restore.Output.
func (t *Target) SymlinkExists(context.Context, string, fs.Symlink) bool { return false }

// WriteDirEntry implements restore.Output. It is for placeholders only, which are not written.
func (t *Target) WriteDirEntry(_ context.Context, name string, _ *snapshot.DirEntry, _ fs.Directory) error {
	return fmt.Errorf("the directory %q would be a placeholder", name)
}

// parent is an open directory with the name of an object in it.
type parent struct {
	dir  *os.File
	name string
}

// open returns where an object is. A name that a file system cannot have is an error: the snapshot may be of anybody
// who has the password.
func (t *Target) open(at string, of fs.Entry) (parent, error) {
	name := of.Name()
	if at == "" {
		name = "."
	} else if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") || path.Base(at) != name ||
		!filepath.IsLocal(at) {
		return parent{}, fmt.Errorf("the snapshot has an object with the name %.300q, want the name of a file", name)
	}
	dir, err := t.root.OpenFile(path.Dir(at), os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return parent{}, &Error{err}
	}
	return parent{dir, name}, nil
}

func (p parent) close() { _ = p.dir.Close() }

func (p parent) fd() int { return int(p.dir.Fd()) }

// clear removes what has the name of the object.
func (p parent) clear(t *Target, at string) error {
	err := unix.Unlinkat(p.fd(), p.name, 0)
	if errors.Is(err, unix.EISDIR) || errors.Is(err, unix.EPERM) {
		return t.root.RemoveAll(at)
	}
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

// BeginDirectory implements restore.Output.
func (t *Target) BeginDirectory(ctx context.Context, at string, of fs.Directory) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	p, err := t.open(at, of)
	if err != nil {
		return err
	}
	defer p.close()
	if at != "" {
		if err := p.mkdir(t, at); err != nil {
			return problem("mkdir", at, err)
		}
	}
	if t.before != nil {
		return t.before.Directory(ctx, of)
	}
	return nil
}

// mkdir makes sure that the object is a directory.
func (p parent) mkdir(t *Target, at string) error {
	err := unix.Mkdirat(p.fd(), p.name, 0o700)
	if !errors.Is(err, unix.EEXIST) {
		return err
	}
	var stat unix.Stat_t
	if err := unix.Fstatat(p.fd(), p.name, &stat, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if stat.Mode&unix.S_IFMT == unix.S_IFDIR {
		return nil
	}
	if err := p.clear(t, at); err != nil {
		return err
	}
	return unix.Mkdirat(p.fd(), p.name, 0o700)
}

// FinishDirectory implements restore.Output.
func (t *Target) FinishDirectory(_ context.Context, at string, of fs.Directory) error {
	p, err := t.open(at, of)
	if err != nil {
		return err
	}
	defer p.close()
	fd, err := unix.Openat(p.fd(), p.name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return problem("open", at, err)
	}
	defer func() { _ = unix.Close(fd) }()
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return problem("stat", at, err)
	}
	if err := t.attributes(fd, at, of, int(stat.Uid), int(stat.Gid), stat.Mode); err != nil {
		return err
	}
	return t.times(p, at, of.ModTime())
}

// WriteFile implements restore.Output.
func (t *Target) WriteFile(ctx context.Context, at string, of fs.File, progress restore.FileWriteProgress) error {
	p, err := t.open(at, of)
	if err != nil {
		return err
	}
	defer p.close()
	if t.before != nil {
		t.before.File(ctx, of)
	}
	release, err := t.budget.take(ctx, of.Size())
	if err != nil {
		return err
	}
	defer release()
	content, err := of.Open(ctx)
	if err != nil {
		return fmt.Errorf("open %q in the snapshot: %w", at, err)
	}
	defer func() { _ = content.Close() }()
	const flags = unix.O_CREAT | unix.O_EXCL | unix.O_WRONLY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(p.fd(), p.name, flags, 0o600)
	if errors.Is(err, unix.EEXIST) {
		if err = p.clear(t, at); err == nil {
			fd, err = unix.Openat(p.fd(), p.name, flags, 0o600)
		}
	}
	if err != nil {
		return problem("create", at, err)
	}
	created := os.NewFile(uintptr(fd), at)
	err = t.fill(ctx, created, content, of.Size(), progress)
	if err == nil {
		err = t.attributes(fd, at, of, t.uid, t.gid, 0o600)
	}
	if err = errors.Join(err, problem("close", at, created.Close())); err != nil {
		return err
	}
	return t.times(p, at, of.ModTime())
}

// chunk is how many bytes are read at once, and hole the size of a block that can be a hole.
const (
	chunk = 256 << 10
	hole  = 4 << 10
)

var chunks = sync.Pool{New: func() any { return new([chunk]byte) }}

// fill writes the content of a file.
func (t *Target) fill(
	ctx context.Context, to *os.File, from io.Reader, size int64, progress restore.FileWriteProgress,
) error {
	if t.sparse {
		if err := to.Truncate(size); err != nil {
			return &Error{err}
		}
	}
	buffer := chunks.Get().(*[chunk]byte) //nolint:forcetypeassert // nothing else is in the pool
	defer chunks.Put(buffer)
	var done int64
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n, err := io.ReadFull(from, buffer[:])
		if n > 0 {
			if err := t.put(to, buffer[:n], done); err != nil {
				return &Error{err}
			}
			done += int64(n)
			progress(int64(n))
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			if done != size {
				return fmt.Errorf("%q has %d bytes in the snapshot, want %d", to.Name(), done, size)
			}
			return nil
		case err != nil:
			return fmt.Errorf("read %q from the repository: %w", to.Name(), err)
		}
	}
}

// put writes some bytes at an offset, and leaves out blocks of zeros in a sparse file.
func (t *Target) put(to *os.File, data []byte, offset int64) error {
	if !t.sparse {
		_, err := to.Write(data)
		return err
	}
	for len(data) > 0 {
		n := min(hole-int(offset%hole), len(data))
		if !isZero(data[:n]) {
			if _, err := to.WriteAt(data[:n], offset); err != nil {
				return err
			}
		}
		data, offset = data[n:], offset+int64(n)
	}
	return nil
}

// CreateSymlink implements restore.Output.
func (t *Target) CreateSymlink(ctx context.Context, at string, of fs.Symlink) error {
	p, err := t.open(at, of)
	if err != nil {
		return err
	}
	defer p.close()
	to, err := of.Readlink(ctx)
	if err != nil {
		return fmt.Errorf("read the symbolic link %q in the snapshot: %w", at, err)
	}
	err = unix.Symlinkat(to, p.fd(), p.name)
	if errors.Is(err, unix.EEXIST) {
		if err = p.clear(t, at); err == nil {
			err = unix.Symlinkat(to, p.fd(), p.name)
		}
	}
	if err != nil {
		return problem("symlink", at, err)
	}
	if owner := of.Owner(); int(owner.UserID) != t.uid || int(owner.GroupID) != t.gid {
		err := unix.Fchownat(p.fd(), p.name, int(owner.UserID), int(owner.GroupID), unix.AT_SYMLINK_NOFOLLOW)
		if err := t.permit(owners, at, err); err != nil {
			return err
		}
	}
	return t.times(p, at, of.ModTime())
}

// attributes sets the owner and the mode of an open object that has others.
func (t *Target) attributes(fd int, at string, of fs.Entry, uid, gid int, mode uint32) error {
	owner := of.Owner()
	chown := int(owner.UserID) != uid || int(owner.GroupID) != gid
	if chown {
		if err := t.permit(owners, at, unix.Fchown(fd, int(owner.UserID), int(owner.GroupID))); err != nil {
			return err
		}
	}
	want := modeOf(of.Mode())
	if !chown && want == mode&0o7777 {
		return nil
	}
	return t.permit(modes, at, unix.Fchmod(fd, want)) // after chown, which removes setuid
}

// times sets the time of modification.
func (t *Target) times(p parent, at string, modified time.Time) error {
	stamp, err := unix.TimeToTimespec(modified)
	if err == nil {
		err = unix.UtimesNanoAt(p.fd(), p.name, []unix.Timespec{stamp, stamp}, unix.AT_SYMLINK_NOFOLLOW)
	}
	return t.permit(times, at, err)
}

// refusals are the errors of a volume that does not let an attribute be set: for want of rights, as of an immutable
// file, or because its file system does not have the attribute, the user, or the time.
var refusals = []error{unix.EPERM, unix.EACCES, unix.ENOTSUP, unix.EINVAL, unix.EOVERFLOW}

// permit returns nil for an attribute that the volume refuses, and counts it.
func (t *Target) permit(k kind, at string, err error) error {
	if slices.ContainsFunc(refusals, func(one error) bool { return errors.Is(err, one) }) {
		t.losses.add(k, cmp.Or(at, "."))
		return nil
	}
	return problem([kinds]string{owners: "chown", modes: "chmod", times: "set the time of"}[k], at, err)
}

// modeOf returns the bits of the system for a mode.
func modeOf(mode os.FileMode) uint32 {
	bits := uint32(mode.Perm())
	for flag, bit := range map[os.FileMode]uint32{
		os.ModeSetuid: unix.S_ISUID, os.ModeSetgid: unix.S_ISGID, os.ModeSticky: unix.S_ISVTX,
	} {
		if mode&flag != 0 {
			bits |= bit
		}
	}
	return bits
}
