package process

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// systemPaths returns what every enclosure has of its host, if it exists there.
func systemPaths() []string {
	paths := []string{"/bin", "/sbin", "/usr", "/lib", "/lib32", "/lib64", "/libx32"}
	for _, name := range []string{
		"ssl", "pki", "ca-certificates", "crypto-policies", "resolv.conf", "hosts", "nsswitch.conf", "host.conf", "gai.conf",
		"passwd", "group",
		"protocols", "services", "localtime", "mime.types", "ld.so.cache", "alternatives",
	} {
		paths = append(paths, "/etc/"+name)
	}
	return paths
}

// capabilities returns the capabilities of a process in an enclosure: it can read all files, and restore them with
// their owners, modes and types. It cannot open the devices that it makes.
func capabilities() []uintptr {
	return []uintptr{
		unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH, unix.CAP_FOWNER, unix.CAP_FSETID, unix.CAP_MKNOD,
		unix.CAP_SETFCAP,
	}
}

// onOwnThread runs f in a goroutine on a thread that ends with it. It is not the first thread of the process, which
// represents the process in /proc.
func onOwnThread(f func()) {
	go func() {
		runtime.LockOSThread() // for ever
		if unix.Gettid() != unix.Getpid() {
			f()
			return
		}
		elsewhere := make(chan struct{})
		go func() {
			runtime.LockOSThread() // for ever
			close(elsewhere)
			f()
		}()
		<-elsewhere
		runtime.UnlockOSThread()
	}()
}

// enter moves the calling thread, and the processes that it starts, into the enclosure. dir is a private directory of
// the process, which keeps its path and is removed after the process. No other goroutine may use the thread. After an
// error it must not use the thread.
func (e *Enclosure) enter(b *Binary, dir string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w: %w", ErrEnclosure, err)
		}
	}()
	trees, links, err := e.detach(b, dir)
	defer func() {
		for _, t := range trees {
			_ = unix.Close(t.fd)
		}
	}()
	if err != nil {
		return err
	}
	if err := e.newRoot(); err != nil {
		return err
	}
	for _, link := range links {
		if err := makeParent(link.path); err != nil {
			return err
		}
		if err := os.Symlink(link.target, link.path); err != nil {
			return err
		}
	}
	for _, t := range trees {
		if err := t.attach(); err != nil {
			return err
		}
	}
	if err := b.placeCopy(); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV,
		""); err != nil {
		return fmt.Errorf("make its root directory read-only: %w", err)
	}
	return dropRights()
}

// tree is a mount that is attached nowhere yet.
type tree struct {
	path      string
	fd        int     // or none, for a place on which nothing is mounted
	flags     uintptr // of mount
	directory bool
}

const none = -1

// link is a symbolic link.
type link struct{ path, target string }

// detach makes the mounts of the enclosure, parents first, and returns the links among the paths of the system.
func (e *Enclosure) detach(b *Binary, dir string) (trees []tree, links []link, err error) {
	const ours = unix.MS_NOSUID | unix.MS_NODEV
	add := func(path string, fd int, flags uintptr) error {
		t, err := detached(path, fd, flags)
		if err == nil {
			trees = append(trees, t)
		}
		return err
	}
	open := func(path, at string, flags uintptr) error {
		file, err := os.OpenFile(path, unix.O_PATH, 0)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }()
		return add(at, int(file.Fd()), flags)
	}
	private := filepath.Join(dir, "tmp")
	if err := os.Mkdir(private, 0o700); err != nil {
		return nil, nil, err
	}
	failed := []error{open(private, "/tmp", ours), open(dir, dir, ours)}
	for _, path := range systemPaths() {
		if target, err := os.Readlink(path); err == nil && filepath.Dir(path) == "/" {
			// of merged directories: /bin is usr/bin
			links = append(links, link{path, target})
			continue
		}
		failed = append(failed, open(path, path, ours|unix.MS_RDONLY))
	}
	for _, name := range []string{"null", "zero", "full", "random", "urandom"} {
		failed = append(failed, open("/dev/"+name, "/dev/"+name, unix.MS_NOSUID|unix.MS_NOEXEC))
	}
	came := filepath.Join(filepath.Dir(b.Path), "."+filepath.Base(b.Path))
	failed = append(failed, open(came, came, ours|unix.MS_RDONLY))
	for _, m := range e.Mounts {
		if !filepath.IsAbs(m.Path) || filepath.Clean(m.Path) == "/" {
			failed = append(failed, fmt.Errorf("%q cannot be in it, expected an absolute path other than /", m.Path))
			continue
		}
		if m.File == nil {
			trees = append(trees, tree{path: filepath.Clean(m.Path), fd: none, directory: !m.Device})
			continue
		}
		failed = append(failed, add(filepath.Clean(m.Path), int(m.File.Fd()), m.flags()))
	}
	slices.SortStableFunc(trees,
		func(a, b tree) int { return cmp.Compare(strings.Count(a.path, "/"), strings.Count(b.path, "/")) })
	return trees, links, errors.Join(failed...)
}

func (m *Mount) flags() (flags uintptr) {
	flags = unix.MS_NOSUID
	for flag, set := range map[uintptr]bool{
		unix.MS_RDONLY: !m.Writable, unix.MS_NODEV: !m.Device, unix.MS_NOSYMFOLLOW: !m.Links, unix.MS_NOEXEC: !m.Programs,
	} {
		if set {
			flags |= flag
		}
	}
	return flags
}

// detached returns a mount of an open file, which can be in another mount namespace than the one in which it is
// attached.
func detached(path string, fd int, flags uintptr) (tree, error) {
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return tree{}, err
	}
	mount, err := unix.OpenTree(fd, "", unix.AT_EMPTY_PATH|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return tree{}, fmt.Errorf("mount %s: %w", path, err)
	}
	return tree{path: path, fd: mount, flags: flags, directory: stat.Mode&unix.S_IFMT == unix.S_IFDIR}, nil
}

// attach attaches a mount at its path in the new root.
func (t tree) attach() error {
	if err := makeParent(t.path); err != nil {
		return err
	}
	if err := makePlace(t.path, t.directory); err != nil || t.fd == none {
		return err
	}
	if err := unix.MoveMount(t.fd, "", unix.AT_FDCWD, t.path, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount %s: %w", t.path, err)
	}
	err := unix.Mount("", t.path, "", unix.MS_PRIVATE, "")
	if err == nil {
		err = unix.Mount("", t.path, "", unix.MS_REMOUNT|unix.MS_BIND|t.flags, "")
	}
	if err != nil {
		return fmt.Errorf("restrict the mount of %s: %w", t.path, err)
	}
	return nil
}

func makeParent(path string) error { return os.MkdirAll(filepath.Dir(path), 0o755) }

// makePlace makes what something is mounted on.
func makePlace(path string, directory bool) error {
	if directory {
		return os.MkdirAll(path, 0o755)
	}
	file, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE, 0o600)
	if errors.Is(err, unix.EROFS) { // it exists
		return nil
	}
	if err != nil {
		return err
	}
	return file.Close()
}

// newRoot gives the calling thread the mount namespace of the enclosure, which has an empty root directory, and no
// mount of the host.
func (e *Enclosure) newRoot() error {
	root, err := emptyRoot()
	if err != nil {
		return fmt.Errorf("make its root directory: %w", err)
	}
	defer func() { _ = unix.Close(root) }()
	if err := separate(); err != nil {
		return err
	}
	namespace, err := os.Open("/proc/thread-self/ns/mnt")
	if err != nil {
		return fmt.Errorf("open its mount namespace: %w", err)
	}
	e.keep(namespace)
	if err := unmountAll(); err != nil {
		return err
	}
	return goTo(root)
}

// separate gives the calling thread a mount namespace of its own, with the mounts of the host.
func separate() error {
	if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_FS); err != nil {
		return fmt.Errorf("make a mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("separate its mounts from those of the host: %w", err)
	}
	return nil
}

// goTo makes a file system the root directory of the calling thread. pivot_root is denied to containers, also to those
// that may mount.
func goTo(root int) error {
	if err := unix.MoveMount(root, "", unix.AT_FDCWD, "/", unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount its root directory: %w", err)
	}
	if err := unix.Fchdir(root); err != nil {
		return err
	}
	if err := unix.Chroot("."); err != nil {
		return fmt.Errorf("change its root directory: %w", err)
	}
	return nil
}

// emptyRoot returns a new file system in memory that is attached nowhere.
func emptyRoot() (int, error) {
	config, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer func() { _ = unix.Close(config) }()
	if err := errors.Join(unix.FsconfigSetString(config, "mode", "0755"), unix.FsconfigCreate(config)); err != nil {
		return -1, err
	}
	return unix.Fsmount(config, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
}

// unmountAll detaches all mounts of the thread's namespace but the root. What the host has mounted could not be
// unmounted there as long as the process runs.
func unmountAll() error {
	info, err := os.Open("/proc/thread-self/mountinfo")
	if err != nil {
		return fmt.Errorf("read the mounts of the host: %w", err)
	}
	defer func() { _ = info.Close() }()
	for before := math.MaxInt; ; {
		mounts, err := belowRoot(info)
		if err != nil || len(mounts) == 0 {
			return err
		}
		if len(mounts) >= before {
			return fmt.Errorf("unmount %q: they stay", mounts)
		}
		before = len(mounts)
		for _, at := range slices.Backward(mounts) {
			_ = unix.Unmount(at, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW) // mounts below other mounts follow in the next round
		}
	}
}

// belowRoot returns the paths of the mounts on the root of the mount namespace that an open file describes.
func belowRoot(info io.ReadSeeker) (paths []string, err error) {
	_, err = info.Seek(0, io.SeekStart)
	text, errRead := io.ReadAll(info)
	if err = errors.Join(err, errRead); err != nil {
		return nil, fmt.Errorf("read the mounts of the host: %w", err)
	}
	root := ""
	var all [][][]byte
	for line := range bytes.Lines(text) {
		fields := bytes.Fields(line)
		const at = 4 // proc_pid_mountinfo(5): id, parent, device, root, path
		if len(fields) <= at {
			return nil, fmt.Errorf("read the mounts of the host: %q is no mount", line)
		}
		if string(fields[at]) == "/" {
			root = string(fields[0])
		}
		all = append(all, fields)
	}
	for _, fields := range all {
		if string(fields[1]) == root && string(fields[0]) != root {
			paths = append(paths, unescaped(string(fields[4])))
		}
	}
	return paths, nil
}

// unescaped returns a path in which the kernel has written some characters as octal numbers: "\040".
func unescaped(path string) string {
	var plain strings.Builder
	for {
		before, after, found := strings.Cut(path, `\`)
		plain.WriteString(before)
		if !found {
			return plain.String()
		}
		const digits = 3
		if len(after) >= digits {
			if value, err := strconv.ParseUint(after[:digits], 8, 8); err == nil {
				plain.WriteByte(byte(value))
				path = after[digits:]
				continue
			}
		}
		plain.WriteByte('\\')
		path = after
	}
}

// placeCopy makes a copy of the binary in the new root, and has it at its path, which may be below a mount.
func (b *Binary) placeCopy() error {
	const copied = "/.program"
	if err := b.copyTo(copied); err != nil {
		return fmt.Errorf("copy %s: %w", b.Path, err)
	}
	held, err := os.OpenFile(copied, unix.O_PATH, 0)
	if err != nil {
		return err
	}
	defer func() { _ = held.Close() }()
	t, err := detached(b.Path, int(held.Fd()), unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(t.fd) }()
	return t.attach()
}

// copyTo makes a copy of the binary. No other process starts meanwhile: until it runs its program, it would have the
// copy open for writing, so that the copy could not be run, and its file system could not be made read-only.
func (b *Binary) copyTo(path string) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o500)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, io.NewSectionReader(b.File, 0, math.MaxInt64))
	return errors.Join(err, file.Close())
}

// dropRights removes all capabilities from the calling thread, and from the processes that it starts, except the
// capabilities of a process in an enclosure.
func dropRights() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var has [2]unix.CapUserData
	if err := unix.Capget(&header, &has[0]); err != nil {
		return fmt.Errorf("read its capabilities: %w", err)
	}
	var keep [2]unix.CapUserData
	for _, capability := range capabilities() {
		const bits = 32
		word, bit := capability/bits, uint32(1)<<(capability%bits)
		keep[word].Permitted |= has[word].Permitted & bit
	}
	for i := range keep {
		keep[i].Effective = keep[i].Permitted
	}
	// A program that root runs gets all capabilities of the bounding set, but no more than it has once it can gain none.
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("keep it from gaining capabilities: %w", err)
	}
	if err := unix.Capset(&header, &keep[0]); err != nil {
		return fmt.Errorf("drop its capabilities: %w", err)
	}
	return nil
}

// socketIn returns a path of the socket that an enclosed process announces, until release is called. The process cannot
// make the path lead elsewhere.
func socketIn(dir, address string) (path string, release func(), err error) {
	if filepath.Dir(address) != dir {
		return "", nil, fmt.Errorf("its socket %s is not in %s, as PLUGIN_UNIX_SOCKET_DIR says", address, dir)
	}
	fd, err := unix.Open(address, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", nil, &fs.PathError{Op: "open", Path: address, Err: err}
	}
	socket := os.NewFile(uintptr(fd), address)
	if info, err := socket.Stat(); err != nil || info.Mode().Type() != fs.ModeSocket {
		return "", nil, errors.Join(fmt.Errorf("%s is no socket", address), err, socket.Close())
	}
	return fmt.Sprintf("/proc/self/fd/%d", fd), func() { _ = socket.Close() }, nil
}
