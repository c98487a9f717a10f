package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/test/controlplane"
)

// manifestGetOverRange reports the time to find one item by its name in a manifest of a million items in S3, divided
// by the time of one ranged read of the same number of bytes. The sides take turns.
func manifestGetOverRange(ctx context.Context, _ string, report func(string, float64)) (err error) {
	w, err := newManifestWork(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	if _, _, err := w.write(ctx); err != nil {
		return err
	}
	refs, err := someItems(w.file)
	if err != nil {
		return err
	}
	cluster, err := controlplane.Start(ctx, controlplane.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	object, err := store(cluster.S3, w.file)
	if err != nil {
		return err
	}

	var ratios []float64
	for run := range runs + 1 {
		var get, bare time.Duration
		var bytes int64
		for _, ref := range refs {
			object.read = 0
			began := time.Now()
			if err := getItem(ctx, object, ref); err != nil {
				return err
			}
			get += time.Since(began)
			as := object.read
			began = time.Now()
			if err := object.bareRead(ctx, as); err != nil {
				return err
			}
			bare += time.Since(began)
			bytes += as
		}
		if run == 0 {
			continue // warm-up
		}
		n := float64(len(refs))
		say("item by name %.2f ms, ranged read of %.0f bytes %.2f ms", get.Seconds()*1e3/n, float64(bytes)/n,
			bare.Seconds()*1e3/n)
		ratios = append(ratios, get.Seconds()/bare.Seconds())
	}
	report("manifest_get_over_range", median(ratios))
	return nil
}

// someItems returns references to 100 items spread over a manifest.
func someItems(path string) ([]manifest.Ref, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	r, err := manifest.NewReader(file)
	if err != nil {
		return nil, err
	}
	var refs []manifest.Ref
	i := 0
	for item, err := range r.Items() {
		if err != nil {
			return nil, err
		}
		if i%(manifestItems/100) == 4711 {
			refs = append(refs, manifest.Ref{Group: item.APIGroup, Resource: item.Resource, Namespace: item.Namespace,
				Name: item.Name})
		}
		i++
	}
	return refs, nil
}

// getItem finds an item like a program that has not read the manifest before.
func getItem(ctx context.Context, object *rangedObject, ref manifest.Ref) error {
	file, err := manifest.Open(ctx, object)
	if err != nil {
		return err
	}
	item, err := file.Get(ctx, ref)
	if err == nil && item.Name != ref.Name {
		err = fmt.Errorf("got %s, want %s", item, ref.Name)
	}
	return err
}

// rangedObject is an object in S3. It implements manifest.Ranger, and counts the bytes that are read.
type rangedObject struct {
	client      *s3.Client
	bucket, key string
	read        int64
}

// store stores a file as an object in a bucket of its own, which is a directory of the server.
func store(server controlplane.S3, path string) (*rangedObject, error) {
	o := &rangedObject{bucket: "manifests", key: filepath.Base(path), client: s3.New(s3.Options{
		Region: server.Region, BaseEndpoint: &server.Endpoint, UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(server.AccessKey, server.SecretKey, ""),
	})}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	bucket := filepath.Join(server.Dir, o.bucket)
	if err := os.Mkdir(bucket, 0o755); err != nil {
		return nil, err
	}
	return o, os.WriteFile(filepath.Join(bucket, o.key), content, 0o644) //nolint:gosec // in the form of the server
}

func (o *rangedObject) get(ctx context.Context, bytes string) (*s3.GetObjectOutput, error) {
	return o.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &o.bucket, Key: &o.key, Range: &bytes})
}

// ReadRange implements manifest.Ranger.
func (o *rangedObject) ReadRange(ctx context.Context, offset, length int64) (io.ReadCloser, error) {
	o.read += length
	out, err := o.get(ctx, fmt.Sprintf("bytes=%d-%d", offset, offset+length-1))
	if err != nil {
		return nil, err
	}
	return out.Body, nil
}

// Tail implements manifest.Ranger.
func (o *rangedObject) Tail(ctx context.Context, n int64) ([]byte, int64, error) {
	out, err := o.get(ctx, fmt.Sprintf("bytes=-%d", n))
	if err != nil {
		return nil, 0, err
	}
	defer out.Body.Close()
	var size int64
	if _, err := fmt.Sscanf(aws.ToString(out.ContentRange), "bytes %d-%d/%d", new(int64), new(int64), &size); err != nil {
		return nil, 0, fmt.Errorf("content range %q: %w", aws.ToString(out.ContentRange), err)
	}
	content := make([]byte, min(n, size))
	_, err = io.ReadFull(out.Body, content)
	o.read += int64(len(content))
	return content, size, err
}

// bareRead reads bytes and discards them.
func (o *rangedObject) bareRead(ctx context.Context, bytes int64) error {
	body, err := o.ReadRange(ctx, 0, bytes)
	if err != nil {
		return err
	}
	defer body.Close()
	_, err = io.Copy(io.Discard, body)
	return err
}
