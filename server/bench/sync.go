package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cleat-dev/cleat/server/test/roundtrip"
	"github.com/cleat-dev/cleat/server/test/world"
)

// inBucket is the number of backups in the bucket of the benchmarks of synchronisation and garbage collection.
const inBucket = 10000

var locations = schema.GroupVersionResource{Group: "velero.io", Version: "v1", Resource: "backupstoragelocations"}

// fullBucket is a site whose bucket has many expired backups, and whose API server logs requests.
type fullBucket struct {
	*site
	audit string
	dir   string
}

func newFullBucket(ctx context.Context, cleat string) (_ *fullBucket, err error) {
	dir, err := os.MkdirTemp("", "cleat-bench-")
	if err != nil {
		return nil, err
	}
	b := &fullBucket{dir: dir}
	if b.site, b.audit, err = newAuditedSite(ctx, cleat, dir); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	for i := range inBucket {
		name := backupName(i)
		data, err := json.Marshal(storedBackup(roundtrip.Namespace, name))
		if err != nil {
			return b, err
		}
		folder := filepath.Join(b.S3.Dir, b.Bucket, "backups", name)
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return b, err
		}
		if err := os.WriteFile(filepath.Join(folder, "velero-backup.json"), data, 0o644); err != nil { //nolint:gosec // in the form of the server
			return b, err
		}
	}
	return b, b.period(ctx, "0s")
}

func (b *fullBucket) close() error { return errors.Join(b.site.close(), os.RemoveAll(b.dir)) }

func backupName(i int) string { return fmt.Sprintf("nightly-%05d", i) }

// storedBackup returns an expired Backup in the form in which a server stores it.
func storedBackup(namespace, name string) map[string]any {
	return map[string]any{
		"apiVersion": "velero.io/v1", "kind": "Backup",
		"metadata": map[string]any{
			"name": name, "namespace": namespace, "uid": "uid-of-" + name,
			"labels": map[string]any{"velero.io/storage-location": "default", "velero.io/schedule-name": "nightly"},
			"annotations": map[string]any{"velero.io/source-cluster-k8s-gitversion": "v1.33.0",
				"velero.io/resource-timeout": "10m0s"},
		},
		"spec": map[string]any{
			"includedNamespaces": []any{"*"}, "excludedResources": []any{"volumesnapshots.snapshot.storage.k8s.io"},
			"ttl":             "720h0m0s",
			"storageLocation": "default", "itemOperationTimeout": "4h0m0s", "csiSnapshotTimeout": "10m0s",
			"hooks": map[string]any{}, "metadata": map[string]any{},
		},
		"status": map[string]any{
			"phase": "Completed", "version": 1, "formatVersion": "1.1.0", "expiration": "2026-01-31T01:00:00Z",
			"startTimestamp":      "2026-01-01T01:00:00Z",
			"completionTimestamp": "2026-01-01T01:05:00Z", "progress": map[string]any{"totalItems": 1234, "itemsBackedUp": 1234},
		},
	}
}

// period sets the period of the synchronisation of the location, which makes it due unless the period is 0.
func (b *fullBucket) period(ctx context.Context, period string) error {
	patch := fmt.Sprintf(`{"spec":{"backupSyncPeriod":%q}}`, period)
	_, err := b.dynamic.Resource(locations).Namespace(roundtrip.Namespace).Patch(ctx, "default", types.MergePatchType,
		[]byte(patch), metav1.PatchOptions{})
	return err
}

// sync makes the server synchronise the location, and returns the time.
func (b *fullBucket) sync(ctx context.Context, period string) (time.Duration, error) {
	time.Sleep(1100 * time.Millisecond) // status.lastSyncedTime has whole seconds
	watch, err := b.dynamic.Resource(locations).Namespace(roundtrip.Namespace).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	defer watch.Stop()
	before, err := b.get(ctx, "backupstoragelocations", "default")
	if err != nil {
		return 0, err
	}
	last, _, _ := unstructured.NestedString(before.Object, "status", "lastSyncedTime")
	began := time.Now()
	if err := b.period(ctx, period); err != nil {
		return 0, err
	}
	for event := range watch.ResultChan() {
		if o, ok := event.Object.(*unstructured.Unstructured); ok {
			if synced, _, _ := unstructured.NestedString(o.Object, "status", "lastSyncedTime"); synced != last {
				return time.Since(began), nil
			}
		}
	}
	return 0, fmt.Errorf("the watch of the location ended early: %w", context.Cause(ctx))
}

// bareList lists the directories of the bucket.
func (b *fullBucket) bareList(ctx context.Context) (time.Duration, error) {
	client := s3.New(s3.Options{
		Region: b.S3.Region, BaseEndpoint: &b.S3.Endpoint, UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(b.S3.AccessKey, b.S3.SecretKey, ""),
	})
	began := time.Now()
	pages := s3.NewListObjectsV2Paginator(client, &s3.ListObjectsV2Input{
		Bucket: &b.Bucket, Prefix: aws.String("backups/"), Delimiter: aws.String("/"),
	})
	found := 0
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return 0, err
		}
		found += len(page.CommonPrefixes)
	}
	if found != inBucket {
		return 0, fmt.Errorf("listed %d directories, want %d", found, inBucket)
	}
	return time.Since(began), nil
}

// bareCreate creates the same number of Backups as in the bucket, in a new namespace that no server watches.
func (b *fullBucket) bareCreate(ctx context.Context, name string) (time.Duration, error) {
	namespace := world.Object{Unstructured: &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name},
	}}, Resource: "namespaces"}
	if err := b.client.CreateBare(ctx, []world.Object{namespace}, 1); err != nil {
		return 0, err
	}
	var objects []world.Object
	for i := range inBucket {
		objects = append(objects, world.Object{
			Unstructured: &unstructured.Unstructured{Object: storedBackup(name, backupName(i))}, Resource: "backups",
		})
	}
	began := time.Now()
	err := b.client.CreateBare(ctx, objects, world.Workers)
	return time.Since(began), err
}

// looks returns the times of the server's passes over the bucket, according to its log.
func (b *fullBucket) looks() (took []float64, err error) {
	text, err := os.ReadFile(filepath.Join(b.WorkDir, "server.log"))
	if err != nil {
		return nil, err
	}
	for _, match := range regexp.MustCompile(`compared the bucket with the cluster: .*took=(\S+)`).FindAllSubmatch(text,
		-1) {
		d, err := time.ParseDuration(string(match[1]))
		if err != nil {
			return nil, err
		}
		took = append(took, d.Seconds())
	}
	return took, nil
}

// sync10k reports the time to create the Backups for 10,000 backups of a bucket in an empty cluster, divided by the
// time of a bare listing with the same number of bare creates, measured once; the time of a pass over the bucket when
// nothing has changed, divided by the time of a bare listing; and the peak memory of the server that creates the
// Backups, divided by the peak memory of one that finds them in the cluster.
func sync10k(ctx context.Context, cleat string, report func(string, float64)) (err error) {
	b, err := newFullBucket(ctx, cleat)
	if b != nil && b.site != nil {
		defer func() { err = errors.Join(err, b.close()) }()
	}
	if err != nil {
		return err
	}
	if _, err := b.bareList(ctx); err != nil { // warm-up
		return err
	}
	list, err := b.bareList(ctx)
	if err != nil {
		return err
	}
	creates, err := b.bareCreate(ctx, "before")
	if err != nil {
		return err
	}
	var took time.Duration
	brought, err := b.during(ctx, func() error {
		began := time.Now()
		if took, err = b.sync(ctx, "1h"); err != nil {
			return err
		}
		calls, verbs, err := callsBetween(b.audit, began, time.Now())
		if err != nil {
			return err
		}
		say("%d calls: %v", calls, verbs)
		report("sync_10k_calls", float64(calls)/inBucket)
		return nil
	})
	if err != nil {
		return err
	}
	later, err := b.bareCreate(ctx, "after") // the API server gets slower with each stored object
	if err != nil {
		return err
	}
	say("list %.2fs, creates %.2fs before and %.2fs after, sync %.2fs", list.Seconds(), creates.Seconds(), later.Seconds(),
		took.Seconds())
	report("sync_10k_backups", took.Seconds()/(list+(creates+later)/2).Seconds())
	var lists, looks []float64
	found, err := b.during(ctx, func() error {
		if err := b.period(ctx, "2s"); err != nil {
			return err
		}
		for len(looks) < runs { // the sides take turns, so that both follow the same pause
			time.Sleep(100 * time.Millisecond)
			before := len(looks)
			if looks, err = b.looks(); err != nil {
				return err
			}
			if len(looks) == before {
				continue
			}
			time.Sleep(time.Second)
			if list, err = b.bareList(ctx); err != nil {
				return err
			}
			lists = append(lists, list.Seconds())
		}
		if err := b.period(ctx, "0s"); err != nil {
			return err
		}
		return nil
	}, "--log-level", "debug")
	if err != nil {
		return err
	}
	say("lists %.3fs, looks without a change %.3fs", lists, looks[:runs])
	report("sync_10k_again", median(looks[:runs])/median(lists))
	say("peak memory: %.0f MiB when it brings the backups, %.0f MiB when it finds them", brought/1024, found/1024)
	report("sync_10k_rss", brought/found)
	return nil
}

// during runs work beside a server, and returns the server's peak memory in KiB.
func (b *fullBucket) during(ctx context.Context, work func() error, flags ...string) (peak float64, err error) {
	server, err := b.Serve(ctx, b.client, append(flags, "--disable-controllers", "gc")...)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	if err := work(); err != nil {
		return 0, err
	}
	return peakOf(server.PID())
}
