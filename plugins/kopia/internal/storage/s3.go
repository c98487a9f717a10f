package storage

import (
	"context"
	"fmt"
	"sync"

	"github.com/kopia/kopia/repo/blob"
	"github.com/kopia/kopia/repo/blob/s3"
)

// Keys are credentials for S3.
type Keys struct{ AccessKeyID, SecretAccessKey, SessionToken string }

// OpenS3 opens a storage in S3. Each request uses the credentials that keys returns, which must be cheap.
func OpenS3(ctx context.Context, options s3.Options, keys func(context.Context) (Keys, error)) (blob.Storage, error) {
	r := &refreshed{options: options, keys: keys}
	_, err := r.storage(ctx)
	return r, err
}

// refreshed is a storage in S3 that takes up new credentials.
type refreshed struct {
	blob.DefaultProviderImplementation
	options s3.Options // without credentials
	keys    func(context.Context) (Keys, error)

	mu      sync.Mutex
	used    Keys
	current blob.Storage
}

// storage returns the storage with the credentials of now.
func (r *refreshed) storage(ctx context.Context) (blob.Storage, error) {
	keys, err := r.keys(ctx)
	if err != nil {
		return nil, fmt.Errorf("get credentials for S3: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current != nil && keys == r.used {
		return r.current, nil
	}
	options := r.options
	options.AccessKeyID, options.SecretAccessKey = keys.AccessKeyID, keys.SecretAccessKey
	options.SessionToken = keys.SessionToken
	opened, err := s3.New(ctx, &options, false)
	if err != nil {
		return nil, err
	}
	r.current, r.used = opened, keys
	return opened, nil
}

// GetBlob implements blob.Storage.
func (r *refreshed) GetBlob(ctx context.Context, id blob.ID, offset, length int64, output blob.OutputBuffer) error {
	st, err := r.storage(ctx)
	if err != nil {
		return err
	}
	return st.GetBlob(ctx, id, offset, length, output)
}

// GetMetadata implements blob.Storage.
func (r *refreshed) GetMetadata(ctx context.Context, id blob.ID) (blob.Metadata, error) {
	st, err := r.storage(ctx)
	if err != nil {
		return blob.Metadata{}, err
	}
	return st.GetMetadata(ctx, id)
}

// PutBlob implements blob.Storage.
func (r *refreshed) PutBlob(ctx context.Context, id blob.ID, data blob.Bytes, options blob.PutOptions) error {
	st, err := r.storage(ctx)
	if err != nil {
		return err
	}
	return st.PutBlob(ctx, id, data, options)
}

// DeleteBlob implements blob.Storage.
func (r *refreshed) DeleteBlob(ctx context.Context, id blob.ID) error {
	st, err := r.storage(ctx)
	if err != nil {
		return err
	}
	return st.DeleteBlob(ctx, id)
}

// ListBlobs implements blob.Storage.
func (r *refreshed) ListBlobs(ctx context.Context, prefix blob.ID, callback func(blob.Metadata) error) error {
	st, err := r.storage(ctx)
	if err != nil {
		return err
	}
	return st.ListBlobs(ctx, prefix, callback)
}

// ExtendBlobRetention implements blob.Storage.
func (r *refreshed) ExtendBlobRetention(ctx context.Context, id blob.ID, options blob.ExtendOptions) error {
	st, err := r.storage(ctx)
	if err != nil {
		return err
	}
	return st.ExtendBlobRetention(ctx, id, options)
}

// ConnectionInfo implements blob.Storage. The options have no credentials.
func (r *refreshed) ConnectionInfo() blob.ConnectionInfo {
	return blob.ConnectionInfo{Type: "s3", Config: &r.options}
}

// DisplayName implements blob.Storage.
func (r *refreshed) DisplayName() string {
	return "S3: " + r.options.Endpoint + " " + r.options.BucketName
}
