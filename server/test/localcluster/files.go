package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// dirPattern is the name of a cluster's directory below the temporary one.
const dirPattern = "cleat-localcluster-*"

// files are the paths of one cluster; all lie below dir.
type files struct {
	dir, lock, logs, kubeconfig, tokens string
	ca, cert, key, serviceAccountKey    string
	etcdData, etcdSocket                string
	s3Data, s3Metadata                  string
}

func layout(dir string) files {
	in := func(name string) string { return filepath.Join(dir, name) }
	return files{
		dir: dir, lock: in("lock"), logs: in("logs"), kubeconfig: in("kubeconfig"), tokens: in("tokens.csv"),
		ca: in("ca.crt"), cert: in("serving.crt"), key: in("serving.key"), serviceAccountKey: in("service-accounts.key"),
		etcdData: in("etcd"), etcdSocket: in("etcd.sock"),
		s3Data: in("buckets"), s3Metadata: in("s3-metadata"),
	}
}

// newDir makes the directory of a cluster in root. The lock that is returned says, as
// long as it is open, that the cluster lives.
func newDir(root string) (files, *os.File, error) {
	dir, err := os.MkdirTemp(root, dirPattern)
	if err != nil {
		return files{}, nil, fmt.Errorf("making the cluster's directory: %w", err)
	}
	f := layout(dir)
	lock, err := fillDir(f)
	if err != nil {
		return files{}, nil, errors.Join(err, os.RemoveAll(dir))
	}
	return f, lock, nil
}

func fillDir(f files) (*os.File, error) {
	// The path of a socket has room for 104 bytes on some systems, 108 on others.
	if len(f.etcdSocket) >= 104 {
		return nil, fmt.Errorf("%s is too long for the path of a socket: set TMPDIR to a shorter directory", f.etcdSocket)
	}
	for _, dir := range []string{f.logs, f.s3Data, f.s3Metadata} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return nil, fmt.Errorf("making the cluster's directory: %w", err)
		}
	}
	// Locked before it gets its name: sweep never sees an unlocked lock of a live cluster.
	lock, err := os.OpenFile(f.lock+".new", os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, fmt.Errorf("making the cluster's lock: %w", err)
	}
	err = tryLock(lock)
	if err == nil {
		err = os.Rename(f.lock+".new", f.lock)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("making the cluster's lock: %w", err), lock.Close())
	}
	return lock, nil
}

// sweep removes from root the directories of clusters whose launcher was killed.
func sweep(root string) error {
	dirs, err := filepath.Glob(filepath.Join(root, dirPattern))
	if err != nil {
		return fmt.Errorf("looking for what killed clusters left behind: %w", err)
	}
	var errs []error
	for _, dir := range dirs {
		if abandoned(dir) {
			errs = append(errs, os.RemoveAll(dir))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("removing what killed clusters left behind: %w", err)
	}
	return nil
}

// abandoned reports whether dir belonged to a launcher that is no more. A
// directory without a lock is being made or removed by its owner, unless that
// is an hour ago.
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

// secret is a new random word.
func secret() string { return rand.Text() }
