package app

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/framework/hostapi"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/calls"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/process"
	"github.com/cleat-dev/cleat/server/internal/node"
	"github.com/cleat-dev/cleat/server/internal/node/hostpath"
	"github.com/cleat-dev/cleat/versioning/datamover"
	"github.com/cleat-dev/cleat/versioning/kinds"
)

const (
	// enclosedState is where a mover finds its state directory (Setup.StateDir), which it has for each repository.
	enclosedState = "/state"
	// cleanUpTime is how long a mover whose call was cancelled may clean up, for instance remove its locks from the
	// repository.
	cleanUpTime = 30 * time.Second
	// volumeAt and deviceAt are where a mover sees the volume of its call: a directory, or a block device.
	volumeAt, deviceAt = "/volume", "/device"
	// keptTime is how long the process of a mover is kept for the next call on the same repository, which it may have
	// open.
	keptTime = 2 * time.Minute
	// keptMemory is how many bytes of memory a process may hold to be kept. Buffers of a large upload would add to those
	// of a restore.
	keptMemory = 96 << 20
	// cacheKey is the key of a mover's configuration that names a directory to write to.
	cacheKey = "cacheDirectory"
)

// enclosedMovers finds the data movers of a node agent. Each of their calls has a process that sees only the files of
// the node that the call needs, and serves no other call at the same time.
type enclosedMovers struct {
	host    *pluginhost.Host
	kept    *pluginhost.Enclosures
	state   string            // directory
	configs map[string][]byte // JSON, by the names of movers
	memory  int64             // bytes below which a mover tries to stay; 0 if that is not limited
	stays   bool              // the process of the host, also when a call was cancelled
}

// stateBase returns the directory below which data movers keep state, such as caches.
func stateBase(c Config) string {
	return cmp.Or(os.Getenv(hostapi.StateDirEnv), scratchBase(c.Options.ScratchDir))
}

// newEnclosedMovers returns the data movers of an agent that moves some loads at once.
func newEnclosedMovers(c Config, host *pluginhost.Host, atOnce int) *enclosedMovers {
	state := filepath.Join(stateBase(c), "enclosed-state")
	return &enclosedMovers{
		host: host, kept: pluginhost.NewEnclosures(host, keptTime, atOnce, keptMemory), state: state,
		configs: configs(c.File.Plugins.Config), memory: memoryOfMover(atOnce), stays: true,
	}
}

// Find implements node.Movers.
func (m *enclosedMovers) Find(name string, volume hostpath.Volume) (datamover.Mover, error) {
	entry, err := m.host.Find(kinds.DataMover().Name, name)
	if err != nil {
		return nil, err
	}
	return &enclosedMover{enclosedMovers: m, name: entry.Name, volume: volume}, nil
}

// enclosedMover is a data mover for one volume. It implements datamover.Mover.
type enclosedMover struct {
	*enclosedMovers
	name   string
	volume hostpath.Volume
}

var _ datamover.Mover = (*enclosedMover)(nil)

// at returns the path of the volume in the enclosure.
func (m *enclosedMover) at() string {
	if m.volume.Block {
		return deviceAt
	}
	return volumeAt
}

// Name implements datamover.Mover.
func (m *enclosedMover) Name() string { return m.name }

// Backup implements datamover.Mover.
func (m *enclosedMover) Backup(
	ctx context.Context, backup datamover.Backup, report func(datamover.Progress),
) (datamover.Snapshot, error) {
	backup.Volume.Path = m.at()
	return enclosed(ctx, m, files{repository: &backup.Repository, volume: &m.volume},
		func(mover datamover.Mover) (datamover.Snapshot, error) {
			return mover.Backup(ctx, backup, report)
		})
}

// Restore implements datamover.Mover.
func (m *enclosedMover) Restore(
	ctx context.Context, restore datamover.Restore, report func(datamover.Progress),
) (datamover.Restored, error) {
	restore.Volume.Path = m.at()
	return enclosed(ctx, m, files{repository: &restore.Repository, volume: &m.volume, writable: true},
		func(mover datamover.Mover) (datamover.Restored, error) {
			return mover.Restore(ctx, restore, report)
		})
}

// Forget implements datamover.Mover.
func (m *enclosedMover) Forget(
	ctx context.Context, forget datamover.Forget, report func(datamover.Progress),
) (datamover.Forgotten, error) {
	return enclosed(ctx, m, files{repository: &forget.Repository}, func(mover datamover.Mover) (datamover.Forgotten,
		error) {
		return mover.Forget(ctx, forget, report)
	})
}

// Maintain implements datamover.Mover.
func (m *enclosedMover) Maintain(
	ctx context.Context, maintain datamover.Maintain, report func(datamover.Progress),
) (datamover.Maintained, error) {
	return enclosed(ctx, m, files{repository: &maintain.Repository}, func(mover datamover.Mover) (datamover.Maintained,
		error) {
		return mover.Maintain(ctx, maintain, report)
	})
}

// Check implements datamover.Mover.
func (m *enclosedMover) Check(
	ctx context.Context, check datamover.Check, report func(datamover.Progress),
) (datamover.Checked, error) {
	return enclosed(ctx, m, files{repository: &check.Repository, create: check.Create},
		func(mover datamover.Mover) (datamover.Checked, error) {
			return mover.Check(ctx, check, report)
		})
}

// enclosed makes one call of a mover, in a process that sees some files of the node.
func enclosed[R any](
	ctx context.Context, m *enclosedMover, f files, call func(datamover.Mover) (R, error),
) (result R, err error) {
	defer f.close()
	if err := f.add(m); err != nil {
		return result, fmt.Errorf("enclose the data mover %s: %w", m.name, err)
	}
	environment := []string{hostapi.StateDirEnv + "=" + enclosedState}
	if m.memory > 0 {
		environment = append(environment, fmt.Sprintf("GOMEMLIMIT=%d", m.memory))
	}
	key, err := f.key()
	if err != nil {
		return result, err
	}
	mover, lease, err := pluginhost.Enclosed(m.kept, kinds.DataMover(), m.name, key, &process.Enclosure{
		Mounts: f.mounts, Environment: environment, CleanUp: cleanUpTime,
	})
	if err != nil {
		return result, err
	}
	killed := killedForMemory()
	if f.volume != nil {
		err = lease.Attach(ctx, process.Mount{
			Path: m.at(), File: f.volume.File, Writable: f.writable, Device: f.volume.Block,
		})
	}
	if err == nil {
		result, err = call(mover)
	}
	switch {
	case err == nil:
		lease.Return()
	case ctx.Err() != nil && m.stays: // the mover may not have returned yet
		go lease.End()
	default:
		lease.End()
	}
	died, hasDied := errors.AsType[*calls.DiedError](err)
	switch {
	case err == nil:
	case killedForMemory() > killed: // a program of the mover, maybe
		err = &node.Lost{Err: err, Memory: true}
	case hasDied && died.During != calls.DuringStart:
		err = &node.Lost{Err: err}
	}
	return result, err
}

// files are the files of the node that a call of a mover sees.
type files struct {
	repository *datamover.Repository
	create     bool             // the repository
	volume     *hostpath.Volume // nil for none
	writable   bool             // the volume

	mounts []process.Mount
	opened []*os.File
}

// close closes the files. A process that has started does not need them.
func (f *files) close() {
	for _, file := range f.opened {
		_ = file.Close()
	}
}

// add opens all files.
func (f *files) add(m *enclosedMover) error {
	f.mounts = []process.Mount{{Path: volumeAt}, {Path: deviceAt, Device: true}}
	own := f.ownDirectory(m.name)
	errs := []error{f.addState(filepath.Join(m.state, own), enclosedState),
		f.addRepository(m.host.HasRole(f.repository.Provider, framework.RoleNodeFiles)),
		f.addConfigured(m.configs[m.name], own)}
	for _, path := range filepath.SplitList(os.Getenv("PATH")) {
		errs = append(errs, f.addExisting(path))
	}
	errs = append(errs, f.addCredentials(f.repository.Config["credentialsFile"]))
	for _, name := range []string{
		"AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CA_BUNDLE",
		"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
		"GOOGLE_APPLICATION_CREDENTIALS", "AZURE_CREDENTIALS_FILE", "AZURE_FEDERATED_TOKEN_FILE",
		"ALIBABA_CLOUD_CREDENTIALS_FILE",
		"ALIBABA_CLOUD_OIDC_TOKEN_FILE", "SSL_CERT_FILE", "SSL_CERT_DIR",
	} {
		errs = append(errs, f.addCredentials(os.Getenv(name)))
	}
	return errors.Join(errs...)
}

// key returns what tells enclosures with different files apart.
func (f *files) key() (string, error) {
	var key strings.Builder
	for _, m := range f.mounts {
		var stat unix.Stat_t
		if m.File != nil {
			if err := unix.Fstat(int(m.File.Fd()), &stat); err != nil {
				return "", fmt.Errorf("look at %s: %w", m.Path, err)
			}
		}
		fmt.Fprintf(&key, "%q %d %d %t %t %t %t\n", m.Path, stat.Dev, stat.Ino, m.Writable, m.Device, m.Links, m.Programs)
	}
	return key.String(), nil
}

// ownDirectory returns the name of the directory that a mover has for the repository alone.
func (f *files) ownDirectory(mover string) string {
	of := f.repository
	sum := sha256.Sum256([]byte(strings.Join([]string{mover, of.Provider, of.Config["s3Url"], of.Config["path"],
		of.Config["bucket"], of.Config["prefix"], of.Path}, "\x00")))
	return hex.EncodeToString(sum[:16])
}

// mount adds an open file.
func (f *files) mount(m process.Mount, err error) error {
	if err == nil {
		f.opened, f.mounts = append(f.opened, m.File), append(f.mounts, m)
	}
	return err
}

// addState adds a directory that a mover keeps, and creates it.
func (f *files) addState(path, at string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	file, err := os.Open(path)
	return f.mount(process.Mount{Path: at, File: file, Writable: true, Links: true, Programs: true}, err)
}

// addRepository adds the repository, if it is on a file system, but nothing else of its location. A missing bucket
// stays missing, so that the mover can report it; no repository is created then, since it would vanish with the
// process.
func (f *files) addRepository(onNode bool) error {
	of := f.repository
	if !onNode {
		return nil
	}
	bucket, below := filepath.Join(of.Config["path"], of.Config["bucket"]), filepath.Join(strings.Trim(of.Config["prefix"],
		"/"), of.Path)
	if !filepath.IsAbs(bucket) || !filepath.IsLocal(of.Config["bucket"]) || !filepath.IsLocal(below) {
		return nil // which the mover refuses
	}
	root, err := os.OpenRoot(bucket) // what others put into the bucket leads to nothing else of the node
	switch {
	case errors.Is(err, fs.ErrNotExist) && f.create:
		return fmt.Errorf("there is no directory %s on this node; mount the bucket of the location there, or create it",
			bucket)
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	defer func() { _ = root.Close() }() // a directory
	if f.create && !of.ReadOnly {
		if err := root.MkdirAll(below, 0o700); err != nil {
			return err
		}
	}
	file, err := root.Open(below)
	if errors.Is(err, fs.ErrNotExist) {
		f.mounts = append(f.mounts, process.Mount{Path: bucket})
		return nil
	}
	return f.mount(process.Mount{Path: filepath.Join(bucket, below), File: file, Writable: !of.ReadOnly}, err)
}

// addConfigured adds the absolute paths in the configuration of a mover: its own part of a directory that it may write
// to, and others to read.
func (f *files) addConfigured(config []byte, own string) error {
	var values map[string]any
	if len(config) == 0 || json.Unmarshal(config, &values) != nil {
		return nil
	}
	var errs []error
	for key, value := range values {
		path, ok := value.(string)
		switch {
		case !ok || !filepath.IsAbs(path) || filepath.Clean(path) == "/":
		case key == cacheKey:
			errs = append(errs, f.addState(filepath.Join(path, own), filepath.Clean(path)))
		default:
			errs = append(errs, f.addExisting(path))
		}
	}
	return errors.Join(errs...)
}

// addExisting adds a directory, or a file of bytes, that can be read and run, if it exists and is not there with
// another one. The root directory is never added.
func (f *files) addExisting(path string) error {
	if !filepath.IsAbs(path) || slices.ContainsFunc([]string{"/usr/", "/bin/", "/sbin/", "/lib/"},
		func(system string) bool {
			return strings.HasPrefix(filepath.Clean(path)+"/", system)
		}) {
		return nil
	}
	return f.addReadable(path, process.Mount{Path: filepath.Clean(path), Links: true, Programs: true})
}

// addCredentials adds a file that a variable or a location names, if it exists. If it is in a volume of the kubelet,
// which replaces its content, the whole volume is added.
func (f *files) addCredentials(path string) error {
	if !filepath.IsAbs(path) {
		return nil
	}
	if _, err := os.Lstat(filepath.Join(filepath.Dir(path), "..data")); err == nil {
		path = filepath.Dir(path)
	}
	return f.addReadable(path, process.Mount{Path: filepath.Clean(path), Links: true})
}

func (f *files) addReadable(path string, m process.Mount) error {
	if m.Path == "/" {
		return nil
	}
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() && !info.Mode().IsRegular() {
		return nil //nolint:nilerr // the mover reports the missing files
	}
	if slices.ContainsFunc(f.mounts, func(other process.Mount) bool { return other.Path == m.Path }) {
		return nil
	}
	m.File, err = os.Open(path)
	return f.mount(m, err)
}
