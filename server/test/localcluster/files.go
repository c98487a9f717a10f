package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/cleat-dev/cleat/server/test/localcluster/node"
)

// dirPattern matches the names of clusters' directories below the directory for
// temporary files.
const dirPattern = "cleat-localcluster-*"

// files has the paths of a cluster's files, which are all below dir.
type files struct {
	dir, lock, logs, kubeconfig, tokens string
	ca, cert, key, serviceAccountKey    string
	etcdData, etcdSocket                string
	s3Data, s3Metadata, s3Versions      string
	node, egress                        string
}

func layout(dir string) files {
	in := func(name string) string { return filepath.Join(dir, name) }
	return files{
		dir: dir, lock: in("lock"), logs: in("logs"), kubeconfig: in("kubeconfig"), tokens: in("tokens.csv"),
		ca: in("ca.crt"), cert: in("serving.crt"), key: in("serving.key"), serviceAccountKey: in("service-accounts.key"),
		etcdData: in("etcd"), etcdSocket: in("etcd.sock"),
		s3Data: in("buckets"), s3Metadata: in("s3-metadata"), s3Versions: in("s3-versions"),
		node: in("node"), egress: in("egress.json"),
	}
}

// newDir creates the directory of a cluster in root. The returned lock is held as long
// as the cluster is running.
func newDir(root string) (files, *os.File, error) {
	dir, err := os.MkdirTemp(root, dirPattern)
	if err != nil {
		return files{}, nil, fmt.Errorf("creating the cluster's directory: %w", err)
	}
	f := layout(dir)
	lock, err := fillDir(f)
	if err != nil {
		return files{}, nil, errors.Join(err, os.RemoveAll(dir))
	}
	return f, lock, nil
}

func fillDir(f files) (*os.File, error) {
	// Paths of sockets are limited to 104 bytes on some systems and to 108 on others.
	if len(f.etcdSocket) >= 104 {
		return nil, fmt.Errorf("%s is too long for the path of a socket: set TMPDIR to a shorter directory", f.etcdSocket)
	}
	for _, dir := range []string{f.logs, f.s3Data, f.s3Metadata, f.s3Versions} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return nil, fmt.Errorf("creating the cluster's directory: %w", err)
		}
	}
	// The file is locked before it is renamed, so that sweep never finds an unlocked lock of a running cluster.
	lock, err := os.OpenFile(f.lock+".new", os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, fmt.Errorf("creating the cluster's lock: %w", err)
	}
	err = tryLock(lock)
	if err == nil {
		err = os.Rename(f.lock+".new", f.lock)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("creating the cluster's lock: %w", err), lock.Close())
	}
	return lock, nil
}

// sweep removes from root the directories of clusters whose launcher was killed.
func sweep(root string) error {
	dirs, err := filepath.Glob(filepath.Join(root, dirPattern))
	if err != nil {
		return fmt.Errorf("finding the files of killed clusters: %w", err)
	}
	var errs []error
	for _, dir := range dirs {
		if abandoned(dir) {
			errs = append(errs, remove(dir))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("removing the files of killed clusters: %w", err)
	}
	return nil
}

// remove removes the directory of a cluster whose processes have ended, and the kernel's state of its node.
func remove(dir string) error {
	var err error
	if _, none := os.Stat(layout(dir).node); none == nil {
		err = node.Remove(dir)
	}
	return errors.Join(err, os.RemoveAll(dir))
}

// abandoned reports whether the launcher that created dir has exited. A directory
// without a lock is being created or removed, unless it is older than an hour.
func abandoned(dir string) bool {
	lock, err := os.OpenFile(layout(dir).lock, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		info, err := os.Stat(dir)
		return err == nil && time.Since(info.ModTime()) > time.Hour
	}
	if err != nil {
		return false
	}
	defer lock.Close()
	return tryLock(lock) == nil
}

// secret returns a new random string.
func secret() string { return rand.Text() }
