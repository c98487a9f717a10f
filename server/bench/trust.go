package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	bucket "github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/bucket/trust"
	"github.com/cleat-dev/cleat/server/internal/bucket/verify"
	"github.com/cleat-dev/cleat/versioning/objectstore"
)

// signingTurns is the number of pairs of backups that are compared; see manifestTurns.
const signingTurns = 15

// signingCost reports the time of a backup of about 6,900 objects with a key, divided by the time without. Servers with
// and without it take turns. The figure is the median of 15 turns.
func signingCost(ctx context.Context, s *site, report func(string, float64)) error {
	key, config := filepath.Join(s.WorkDir, "signing.pem"), filepath.Join(s.WorkDir, "signing.yaml")
	private, err := trust.NewKey()
	if err != nil {
		return err
	}
	text := "apiVersion: cleat.dev/v1\nbackups: {signing: {key: {file: " + key + "}}}\n"
	if err := errors.Join(os.WriteFile(key, private, 0o600), os.WriteFile(config, []byte(text), 0o600)); err != nil {
		return err
	}
	var ratios []float64
	for turn := range signingTurns {
		without, err := s.backups(ctx, fmt.Sprintf("unsigned-%d", turn))
		if err != nil {
			return err
		}
		with, err := s.backups(ctx, fmt.Sprintf("signed-%d", turn), "--config", config)
		if err != nil {
			return err
		}
		ratios = append(ratios, with/without)
		say("unsigned %.3fs, signed %.3fs", without, with)
	}
	report("signing_cost", median(ratios))
	return nil
}

// verifyBytes is the size of the archive that is verified.
const verifyBytes = 512 << 20

// verifyOverRead reports the time to verify a backup of 512 MiB in a directory, divided by the time to read and hash
// the same files. The files are in memory for both.
func verifyOverRead(ctx context.Context, _ string, report func(string, float64)) (err error) {
	root, err := os.MkdirTemp("", "cleat-verify-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(root)) }()
	dir := filepath.Join(root, "backups", "b")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	archive, err := os.Create(filepath.Join(dir, "b.tar.gz"))
	if err != nil {
		return err
	}
	_, err = io.CopyN(archive, rand.Reader, verifyBytes)
	if err := errors.Join(err, archive.Close(),
		os.WriteFile(filepath.Join(dir, bucket.MetadataFile), []byte("{}"), 0o600)); err != nil {
		return err
	}
	files := []string{"b.tar.gz", bucket.MetadataFile}
	d := &trust.Document{Format: trust.Version, Backup: trust.Backup{Name: "b", UID: "u"}, Signed: time.Now()}
	for _, name := range files {
		sum, size, err := readAndHash(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		d.Files = append(d.Files, trust.File{Name: name, Size: size, SHA256: sum})
	}
	checksums, err := d.Encode()
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "b-"+bucket.ChecksumsFile), checksums, 0o600); err != nil {
		return err
	}
	objects := bucket.New(directory{root: root}, "", "")
	var ratios []float64
	for range runs {
		began := time.Now()
		for _, name := range files {
			if _, _, err := readAndHash(filepath.Join(dir, name)); err != nil {
				return err
			}
		}
		bare := time.Since(began)
		began = time.Now()
		found, err := verify.Run(ctx, verify.Request{Objects: objects, Backup: "b", Depth: velerov1.VerifyFiles,
			Now: time.Now()})
		if err != nil {
			return err
		}
		if len(found.Findings) > 0 {
			return fmt.Errorf("the backup is damaged: %v", found.Findings)
		}
		ratios = append(ratios, time.Since(began).Seconds()/bare.Seconds())
	}
	report("verify_over_read", median(ratios))
	return nil
}

func readAndHash(path string) (sum string, size int64, err error) {
	file, err := os.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer func() { _ = file.Close() }() // only read from
	hashed := sha256.New()
	size, err = io.CopyBuffer(hashed, struct{ io.Reader }{file}, make([]byte, 256<<10))
	return hex.EncodeToString(hashed.Sum(nil)), size, err
}

// directory is an object store for readers, whose objects are files.
type directory struct {
	objectstore.Store
	root string
}

// ListObjects implements objectstore.Store.
func (d directory) ListObjects(_ context.Context, _, prefix string) (keys []string, err error) {
	err = filepath.WalkDir(d.root, func(path string, entry fs.DirEntry, err error) error {
		key := filepath.ToSlash(strings.TrimPrefix(path, d.root+string(filepath.Separator)))
		if err == nil && !entry.IsDir() && strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
		return err
	})
	return keys, err
}

// ObjectExists implements objectstore.Store.
func (d directory) ObjectExists(_ context.Context, _, key string) (bool, error) {
	_, err := os.Stat(filepath.Join(d.root, filepath.FromSlash(key)))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// GetObject implements objectstore.Store.
func (d directory) GetObject(_ context.Context, _, key string) (io.ReadCloser, error) {
	return os.Open(filepath.Join(d.root, filepath.FromSlash(key)))
}
