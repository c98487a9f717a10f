package filestore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"syscall"

	"gocloud.dev/blob"
	"gocloud.dev/blob/fileblob"
	"gocloud.dev/gcerrors"

	"github.com/cleat-dev/cleat/framework"
	objectstorev1 "github.com/cleat-dev/cleat/framework/objectstore/v1"
	"github.com/cleat-dev/cleat/plugins/internal/bucket"
)

// Name is the provider of a BackupStorageLocation on a file system.
const Name = "cleat.dev/file"

// Backups contain Secrets, so only the owner may read the files.
const (
	fileMode = 0o640
	dirMode  = 0o750
)

// Register returns the plugin's registration.
func Register() framework.Registration {
	return objectstorev1.Register(Name, Construct, framework.WithConfig(Config{}),
		framework.WithRoles(framework.RoleNodeFiles))
}

// Construct returns the store of a location. It is the constructor for Register functions.
func Construct(_ context.Context, setup *framework.Setup) (objectstorev1.ObjectStore, error) {
	return New(framework.Config[Config](setup)), nil
}

// New returns a file store. It does not access the directory.
func New(config Config) objectstorev1.ObjectStore {
	s := &store{root: filepath.Clean(config.Path)}
	// The Go CDK fails when a file disappears before its attributes are read, for example when an upload ends.
	s.Calls = bucket.Calls{Open: s.open, Failed: failed, ListTries: 20}
	return s
}

// store implements the author interface ObjectStore.
type store struct {
	bucket.Calls
	root string // the directory that holds the buckets
}

var _ objectstorev1.ObjectStore = (*store)(nil)

// PutObject writes a file, which is on disk when PutObject returns.
func (s *store) PutObject(ctx context.Context, input *objectstorev1.PutObjectInput) error {
	bucket, key, body := input.Bucket, input.Key, input.Body
	dir, err := s.open(ctx, bucket)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var file *os.File
	w, err := dir.NewWriter(ctx, key, &blob.WriterOptions{
		DisableContentTypeDetection: true,
		IfNotExist:                  input.IfAbsent,
		BeforeWrite: func(as func(any) bool) error {
			if !as(&file) {
				return errors.New("the Go CDK did not tell the temporary file")
			}
			return file.Chmod(fileMode)
		},
	})
	if err != nil {
		return failed("write", bucket, key, err)
	}
	_, err = io.Copy(w, body)
	if err == nil {
		err = file.Sync()
	}
	if err != nil {
		cancel() // makes Close remove the temporary file
		_ = w.Close()
		return failed("write", bucket, key, err)
	}
	if err := w.Close(); err != nil {
		if input.IfAbsent && gcerrors.Code(err) == gcerrors.FailedPrecondition {
			return framework.Exists("write %s in bucket %q: there is such a file", key, bucket)
		}
		return failed("write", bucket, key, err)
	}
	return nil
}

// CreateSignedURL returns the file:// URL of a file. It does not expire.
func (s *store) CreateSignedURL(
	ctx context.Context, input *objectstorev1.CreateSignedURLInput,
) (*objectstorev1.CreateSignedURLOutput, error) {
	bucket, key := input.Bucket, input.Key
	dir, err := s.open(ctx, bucket)
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }()
	r, err := dir.NewReader(ctx, key, nil) // provides the path of the key
	if err != nil {
		return nil, failed("make a URL of", bucket, key, err)
	}
	defer func() { _ = r.Close() }()
	var opened io.Reader
	if !r.As(&opened) {
		return nil, fmt.Errorf("make a URL of %s in bucket %q: the Go CDK did not tell the file", key, bucket)
	}
	file, ok := opened.(*os.File)
	if !ok {
		return nil, fmt.Errorf("make a URL of %s in bucket %q: the Go CDK opened a %T, want a file", key, bucket, opened)
	}
	signed := url.URL{Scheme: "file", Path: filepath.ToSlash(file.Name())}
	return &objectstorev1.CreateSignedURLOutput{URL: signed.String()}, nil
}

// open opens a bucket. Each call opens it again, because the directory may have been mounted or unmounted in between.
func (s *store) open(_ context.Context, bucket string) (*blob.Bucket, error) {
	if err := checkBucket(bucket); err != nil {
		return nil, err
	}
	path := filepath.Join(s.root, bucket)
	dir, err := fileblob.OpenBucket(path, &fileblob.Options{
		Metadata:    fileblob.MetadataDontWrite,
		DirFileMode: dirMode,
		NoTempDir:   true, // a rename must not cross file systems
	})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("bucket %q: there is no directory %s; mount the volume there or create it, or correct "+
			"config.path or the bucket's name in the location", bucket, path)
	case err != nil:
		return nil, fmt.Errorf("bucket %q: %w", bucket, err)
	}
	return dir, nil
}

// failed returns an error with the operation, the place, and the remedy.
func failed(action, bucket, key string, err error) error {
	hint, missing := "", gcerrors.Code(err) == gcerrors.NotFound
	switch {
	case missing:
		hint = "; there is no such object"
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EFBIG):
		hint = "; the file system is full: free or add space, or use another location"
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		hint = "; the server must be allowed to read and write there"
	}
	var path *fs.PathError
	if errors.As(err, &path) { // removes the wrapping of the Go CDK
		err = path
	}
	if missing {
		return framework.NotFound("%s %s in bucket %q: %w%s", action, key, bucket, err, hint)
	}
	return fmt.Errorf("%s %s in bucket %q: %w%s", action, key, bucket, err, hint)
}
