package repository

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/kopia/kopia/repo"
	"github.com/kopia/kopia/repo/blob"
	"github.com/kopia/kopia/repo/blob/throttling"
	"github.com/kopia/kopia/repo/content"
	"github.com/kopia/kopia/repo/format"

	"github.com/cleat-dev/cleat/plugins/kopia/internal/storage"
)

// Client is the user and the host of Velero in all repositories. Its maintenance belongs to Client@Client.
const Client = "default"

// Options are how a repository is opened.
type Options struct {
	Password string
	ReadOnly bool
	// Cache is the directory for the caches of the repository; empty for none.
	Cache string
	// CacheLimit is the maximum size of the caches in bytes.
	CacheLimit int64
	// UploadLimit and DownloadLimit are in bytes per second; 0 is none.
	UploadLimit, DownloadLimit int64
	// Now is the clock; nil for that of the system.
	Now func() time.Time
}

// caching returns the caches, as Velero divides them: a fifth for metadata, and the rest for data. Beyond four fifths,
// kopia removes what was not used for some time.
func (o Options) caching() *content.CachingOptions {
	if o.Cache == "" || o.CacheLimit <= 0 {
		return &content.CachingOptions{} // kopia has both caches, or none
	}
	metadata, data := o.CacheLimit/5, o.CacheLimit/5*4
	return &content.CachingOptions{
		CacheDirectory:        o.Cache,
		ContentCacheSizeBytes: data / 5 * 4, ContentCacheSizeLimitBytes: data,
		MetadataCacheSizeBytes: metadata / 5 * 4, MetadataCacheSizeLimitBytes: metadata,
		MaxListCacheDuration: 30,
	}
}

// Repository is an open repository.
type Repository struct {
	repo.DirectRepository
	dir   string // of the config file, which only an open and maintenance need
	fatal atomic.Pointer[error]
}

// Open opens the repository in a storage, and owns the storage from then on.
func Open(ctx context.Context, st blob.Storage, options Options) (*Repository, error) {
	registered := storage.Register(st)
	r := &Repository{}
	err := r.open(ctx, registered, options)
	if err = errors.Join(err, r.clean()); err != nil { // a process can end at any moment, and leaves nothing behind
		return nil, errors.Join(err, registered.Close(context.WithoutCancel(ctx)))
	}
	return r, nil
}

func (r *Repository) open(ctx context.Context, st *storage.Registered, options Options) (err error) {
	if r.dir, err = os.MkdirTemp("", "cleat-kopia-"); err != nil {
		return err
	}
	file, err := r.configure(st, options)
	if err != nil {
		return err
	}
	if options.Cache != "" { // the repository may be another one of the same place
		for _, name := range []string{format.KopiaRepositoryBlobID, format.KopiaBlobCfgBlobID} {
			if err := os.Remove(filepath.Join(options.Cache, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	opened, err := repo.Open(ctx, file, options.Password, &repo.Options{
		TimeNowFunc:          options.Now,
		DisableRepositoryLog: true,
		DoNotWaitForUpgrade:  true,
		OnFatalError:         func(err error) { r.fatal.Store(&err) }, // the default ends the process
	})
	if err != nil {
		return err
	}
	direct, ok := opened.(repo.DirectRepository)
	if !ok {
		return fmt.Errorf("kopia opened a %T, want a direct repository", opened)
	}
	r.DirectRepository = direct
	debug.FreeOSMemory() // 64 MB are garbage, from which the key was derived; the heap would grow to twice that
	return nil
}

// configure writes the config file of kopia, without secrets.
func (r *Repository) configure(st *storage.Registered, options Options) (file string, err error) {
	info := st.ConnectionInfo()
	config := repo.LocalConfig{
		Storage: &info,
		Caching: options.caching(),
		ClientOptions: repo.ClientOptions{
			Hostname: Client, Username: Client, ReadOnly: options.ReadOnly, Description: "cleat",
		},
	}
	if options.UploadLimit > 0 || options.DownloadLimit > 0 {
		config.Throttling = &throttling.Limits{
			UploadBytesPerSecond: float64(options.UploadLimit), DownloadBytesPerSecond: float64(options.DownloadLimit),
		}
	}
	text, err := json.Marshal(config)
	if err != nil {
		return "", err
	}
	file = filepath.Join(r.dir, "repository.config")
	return file, os.WriteFile(file, text, 0o600)
}

// Settle returns when kopia does not work on the indexes any more, as it does after a call in the background. It
// reports whether the repository can be used by another call, because kopia has called no error fatal.
func (r *Repository) Settle(ctx context.Context) (usable bool) {
	epochs, has, err := r.ContentReader().EpochManager(ctx)
	if err != nil {
		return false
	}
	if has {
		epochs.Flush()
	}
	return r.fatal.Load() == nil
}

// Close closes the repository. An error that kopia has called fatal is returned here.
func (r *Repository) Close(ctx context.Context) error {
	err := r.DirectRepository.Close(context.WithoutCancel(ctx))
	if fatal := r.fatal.Load(); fatal != nil {
		err = errors.Join(*fatal, err)
	}
	return err
}

func (r *Repository) clean() error {
	if r.dir == "" {
		return nil
	}
	return os.RemoveAll(r.dir)
}
