// Package bucket implements calls of the built-in object stores with the buckets of the Go CDK. It imports the
// framework and the Go CDK.
package bucket

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	objectstorev1 "github.com/cleat-dev/cleat/framework/objectstore/v1"
)

// Calls implements the calls of an object store that need nothing else than a bucket of the Go CDK.
type Calls struct {
	// Open opens a bucket. Each call opens it again.
	Open func(ctx context.Context, bucket string) (*blob.Bucket, error)
	// Failed returns an error with the action, the place, and the remedy.
	Failed func(action, bucket, key string, err error) error
	// ListTries is how often a list is attempted when objects disappear while it is read.
	ListTries int
}

// ObjectExists reports whether the object exists.
func (c *Calls) ObjectExists(
	ctx context.Context, input *objectstorev1.ObjectExistsInput,
) (*objectstorev1.ObjectExistsOutput, error) {
	dir, err := c.Open(ctx, input.Bucket)
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }()
	found, err := dir.Exists(ctx, input.Key)
	if err != nil {
		return nil, c.Failed("look for", input.Bucket, input.Key, err)
	}
	return &objectstorev1.ObjectExistsOutput{Exists: found}, nil
}

// GetObject opens an object.
func (c *Calls) GetObject(
	ctx context.Context, input *objectstorev1.GetObjectInput,
) (*objectstorev1.GetObjectOutput, error) {
	dir, err := c.Open(ctx, input.Bucket)
	if err != nil {
		return nil, err
	}
	if input.Range != nil {
		return c.getRange(ctx, dir, input)
	}
	r, err := dir.NewReader(ctx, input.Key, nil)
	if err != nil {
		_ = dir.Close()
		return nil, c.Failed("read", input.Bucket, input.Key, err)
	}
	return &objectstorev1.GetObjectOutput{Body: r}, nil
}

// getRange opens a range of an object.
func (c *Calls) getRange(
	ctx context.Context, dir *blob.Bucket, input *objectstorev1.GetObjectInput,
) (*objectstorev1.GetObjectOutput, error) {
	attributes, err := dir.Attributes(ctx, input.Key)
	if err != nil {
		_ = dir.Close()
		return nil, c.Failed("read", input.Bucket, input.Key, err)
	}
	part := &objectstorev1.Part{Size: attributes.Size}
	var length int64
	if part.Offset, length = input.Range.In(part.Size); length == 0 { // for which S3 has an error
		return &objectstorev1.GetObjectOutput{Body: io.NopCloser(bytes.NewReader(nil)), Part: part}, dir.Close()
	}
	r, err := dir.NewRangeReader(ctx, input.Key, part.Offset, length, nil)
	if err != nil {
		_ = dir.Close()
		return nil, c.Failed("read", input.Bucket, input.Key, err)
	}
	part.Size = r.Size()
	return &objectstorev1.GetObjectOutput{Body: r, Part: part}, nil
}

// ListCommonPrefixes lists the common prefixes directly below a prefix.
func (c *Calls) ListCommonPrefixes(
	ctx context.Context, input *objectstorev1.ListCommonPrefixesInput,
) (*objectstorev1.ListCommonPrefixesOutput, error) {
	prefixes, err := c.list(ctx, input.Bucket, &blob.ListOptions{Prefix: input.Prefix, Delimiter: input.Delimiter}, true)
	if err != nil {
		return nil, err
	}
	return &objectstorev1.ListCommonPrefixesOutput{Prefixes: prefixes}, nil
}

// ListObjects lists the keys that start with a prefix.
func (c *Calls) ListObjects(
	ctx context.Context, input *objectstorev1.ListObjectsInput,
) (*objectstorev1.ListObjectsOutput, error) {
	keys, err := c.list(ctx, input.Bucket, &blob.ListOptions{Prefix: input.Prefix}, false)
	if err != nil {
		return nil, err
	}
	return &objectstorev1.ListObjectsOutput{Keys: keys}, nil
}

func (c *Calls) list(ctx context.Context, bucket string, options *blob.ListOptions, folders bool) ([]string, error) {
	dir, err := c.Open(ctx, bucket)
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }()
	for try := 1; ; try++ {
		keys, err := keysOf(ctx, dir, options, folders)
		if err == nil {
			return keys, nil
		}
		if gcerrors.Code(err) != gcerrors.NotFound || try >= c.ListTries {
			return nil, c.Failed("list", bucket, options.Prefix, err)
		}
	}
}

// keysOf returns the keys of the objects in bucket, or with folders the common prefixes, sorted and each once.
func keysOf(ctx context.Context, bucket *blob.Bucket, options *blob.ListOptions, folders bool) ([]string, error) {
	var keys []string
	for objects := bucket.List(options); ; {
		object, err := objects.Next(ctx)
		if errors.Is(err, io.EOF) {
			slices.Sort(keys)
			return slices.Compact(keys), nil
		}
		if err != nil {
			return nil, err
		}
		if object.IsDir == folders {
			keys = append(keys, object.Key)
		}
	}
}

// DeleteObject removes an object. Removing a missing object is not an error.
func (c *Calls) DeleteObject(ctx context.Context, input *objectstorev1.DeleteObjectInput) error {
	dir, err := c.Open(ctx, input.Bucket)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	if err := dir.Delete(ctx, input.Key); err != nil && gcerrors.Code(err) != gcerrors.NotFound {
		return c.Failed("delete", input.Bucket, input.Key, err)
	}
	return nil
}
