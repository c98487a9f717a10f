package kopia

import (
	"context"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/kopia/kopia/repo/blob"
	"github.com/kopia/kopia/repo/blob/s3"

	"github.com/cleat-dev/cleat/framework"
	dmv1 "github.com/cleat-dev/cleat/framework/datamover/v1"
	objectstorev1 "github.com/cleat-dev/cleat/framework/objectstore/v1"
	"github.com/cleat-dev/cleat/plugins/internal/location"
	"github.com/cleat-dev/cleat/plugins/kopia/internal/storage"
	"github.com/cleat-dev/cleat/plugins/s3store"
)

// place is where a repository is.
type place struct {
	url    string
	remote bool // requests take long
	// reach returns an error unless the bucket can be reached. Its errors say what to check.
	reach func(ctx context.Context) error
	open  func(ctx context.Context, create bool) (blob.Storage, error)
	// foreign reports whether there are files that are no blobs; nil if all files are.
	foreign func() (bool, error)
}

// newPlace returns the place of a repository. It does not access it.
func newPlace(ctx context.Context, r dmv1.Repository) (*place, error) {
	if err := location.Check(r, "kopia/shop"); err != nil {
		return nil, err
	}
	if first, _, _ := strings.Cut(r.Path, "/"); first == "restic" {
		return nil, framework.Invalid("repository %s is one of restic, which %s cannot read; want cleat.dev/restic", r, Name)
	}
	inS3, err := location.InS3(r, Name)
	if err != nil {
		return nil, err
	}
	if inS3 {
		return newS3(ctx, r)
	}
	bucket, folder, err := location.Directory(r)
	if err != nil {
		return nil, err
	}
	return &place{
		url: "file:" + folder,
		reach: func(context.Context) error {
			if _, err := os.Stat(bucket); err != nil { // as when a file system is not mounted
				return framework.Unavailable("the bucket of the location: %w", err)
			}
			return nil
		},
		open: func(ctx context.Context, create bool) (blob.Storage, error) {
			return storage.OpenDirectory(ctx, folder, create)
		},
		foreign: func() (bool, error) { return storage.HasOthers(folder) },
	}, nil
}

func newS3(ctx context.Context, r dmv1.Repository) (*place, error) {
	config, folder, err := location.S3(r)
	if err != nil {
		return nil, err
	}
	endpoint, err := url.Parse(location.Endpoint(config))
	if err != nil || strings.Trim(endpoint.Path, "/") != "" {
		return nil, framework.Invalid("repository %s: config of the location: s3Url is %q, want a URL without a path", r,
			config.S3URL)
	}
	store, err := s3store.New(ctx, config)
	if err != nil {
		return nil, framework.Invalid("repository %s: %w", r, err)
	}
	keys := &keys{config: config}
	options := s3.Options{
		BucketName: r.Config["bucket"], Prefix: folder + "/", Endpoint: endpoint.Host, Region: config.Region,
		DoNotUseTLS: endpoint.Scheme == "http", DoNotVerifyTLS: config.InsecureSkipTLSVerify, RootCA: []byte(config.CACert),
	}
	return &place{
		url: "s3:" + endpoint.Host + "/" + options.BucketName + "/" + folder, remote: true,
		reach: func(ctx context.Context) error {
			found, err := store.ObjectExists(ctx, &objectstorev1.ObjectExistsInput{
				Bucket: options.BucketName, Key: options.Prefix + "kopia.repository",
			})
			if err != nil || found.Exists {
				return err
			}
			// there may be no such bucket, which a request for an object does not tell
			_, err = store.ListCommonPrefixes(ctx, &objectstorev1.ListCommonPrefixesInput{
				Bucket: options.BucketName, Prefix: options.Prefix, Delimiter: "/",
			})
			return err
		},
		open: func(ctx context.Context, _ bool) (blob.Storage, error) { return storage.OpenS3(ctx, options, keys.get) },
	}, nil
}

// keys are the credentials of a location in S3. Those of a file are read again when it changes.
type keys struct {
	config s3store.Config

	mu       sync.Mutex
	looked   time.Time // at the file
	modified time.Time
	provider aws.CredentialsProvider
}

// lookEvery is how often the file of credentials is looked at.
const lookEvery = 2 * time.Second

func (k *keys) get(ctx context.Context) (storage.Keys, error) {
	provider, err := k.current(ctx)
	if err != nil {
		return storage.Keys{}, err
	}
	found, err := provider.Retrieve(ctx)
	return storage.Keys{
		AccessKeyID: found.AccessKeyID, SecretAccessKey: found.SecretAccessKey, SessionToken: found.SessionToken,
	}, err
}

// current returns the provider of credentials of now. A file that cannot be read for a moment leaves the old ones.
func (k *keys) current(ctx context.Context) (aws.CredentialsProvider, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.provider != nil && (k.config.CredentialsFile == "" || time.Since(k.looked) < lookEvery) {
		return k.provider, nil
	}
	k.looked = time.Now()
	modified := time.Time{}
	if k.config.CredentialsFile != "" {
		info, err := os.Stat(k.config.CredentialsFile)
		switch {
		case k.provider != nil && (errors.Is(err, fs.ErrNotExist) || err == nil && info.ModTime().Equal(k.modified)):
			return k.provider, nil
		case err != nil:
			return nil, err
		}
		modified = info.ModTime()
	}
	provider, _, err := s3store.Credentials(ctx, k.config)
	if err != nil && k.provider != nil {
		framework.Log(ctx).Warn("the changed credentials cannot be read, using the old ones", "error", err)
		return k.provider, nil
	}
	if err == nil {
		k.provider, k.modified = provider, modified
	}
	return provider, err
}
