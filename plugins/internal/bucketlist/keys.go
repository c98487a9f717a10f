// Package bucketlist lists the buckets of the Go CDK for the built-in object stores. It imports the Go CDK only.
package bucketlist

import (
	"context"
	"errors"
	"io"
	"slices"

	"gocloud.dev/blob"
)

// Keys returns the keys of the objects in bucket, or with folders the common prefixes, sorted and each once.
func Keys(ctx context.Context, bucket *blob.Bucket, options *blob.ListOptions, folders bool) ([]string, error) {
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
