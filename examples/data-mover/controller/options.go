package controller

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/uuid"
	"gocloud.dev/blob"
	_ "gocloud.dev/blob/s3blob" // buckets at s3:// URLs
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	v1 "github.com/cleat-dev/cleat/examples/data-mover/api/v1"
	"github.com/cleat-dev/cleat/examples/data-mover/engine"
)

// prefix is the folder of snapshots in the bucket. A Velero server accepts the folder "plugins" in a bucket of
// backups.
const prefix = "plugins/mover.example.io/"

// minLease lets a controller write three times per lease, and at most once a second.
const minLease = 3 * time.Second

// options are the flags of a controller.
type options struct {
	namespace, volumes, bucket string
	bytesPerSecond, transfers  int
	streams, packSize          int
	lease, keep, patience      time.Duration
}

func (o *options) parse(args []string) error {
	flags := flag.NewFlagSet("data-mover controller", flag.ContinueOnError)
	flags.StringVar(&o.namespace, "namespace", "velero", "the namespace of the DataTransfers")
	flags.StringVar(&o.volumes, "volumes", "/volumes", "the directory with the data of claims, in NAMESPACE/CLAIM")
	flags.StringVar(&o.bucket, "bucket", "", "the URL of the bucket, as s3://NAME?region=eu-central-1, or "+
		"s3://NAME?endpoint=http://HOST:PORT&region=us-east-1&use_path_style=true; the credentials are those of the "+
		"variables AWS_...")
	flags.IntVar(&o.bytesPerSecond, "bytes-per-second", 0, "the limit of all transfers together; 0 for none")
	flags.IntVar(&o.transfers, "transfers", 2, "how many transfers are worked on at a time")
	flags.IntVar(&o.streams, "streams", 4, "how many packs a transfer sends or fetches at a time; each is in memory")
	flags.IntVar(&o.packSize, "pack-size", 8<<20, "the size in bytes of packs, the objects in the bucket")
	flags.DurationVar(&o.lease, "lease", 15*time.Second,
		"after which time without a write the transfers of another controller are taken over")
	flags.DurationVar(&o.keep, "keep", 7*24*time.Hour, "how long DataTransfers are kept after their end")
	flags.DurationVar(&o.patience, "patience", 5*time.Minute, "how long a request to the bucket that fails is tried again")
	if err := flags.Parse(args); err != nil {
		return err
	}
	return o.check(flags.Args())
}

func (o *options) check(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("unexpected argument %q", rest[0])
	case o.bucket == "":
		return errors.New("--bucket is missing: want a URL as s3://NAME?region=eu-central-1")
	case o.transfers < 1 || o.streams < 1 || o.bytesPerSecond < 0:
		return errors.New("--transfers and --streams must be at least 1, and --bytes-per-second must not be negative")
	case o.packSize < 1<<10 || o.packSize > engine.MaxPack:
		return fmt.Errorf("--pack-size is %d, want 1024 to %d", o.packSize, engine.MaxPack)
	case o.lease < minLease || o.keep < 0 || o.patience < 0:
		return fmt.Errorf("--lease must be at least %s, and --keep and --patience must not be negative", minLease)
	}
	info, err := os.Stat(o.volumes)
	if err != nil || !info.IsDir() {
		return fmt.Errorf("--volumes: %s must be a directory: %w", o.volumes, err)
	}
	return nil
}

// openBucket opens the folder of the mover in a bucket.
func openBucket(ctx context.Context, address string) (*blob.Bucket, error) {
	parsed, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	if parsed.Scheme == "s3" {
		// The mover verifies all data by SHA-256, and reports which file is damaged.
		query := parsed.Query()
		query.Set("response_checksum_validation", "when_required")
		parsed.RawQuery = query.Encode()
	}
	bucket, err := blob.OpenBucket(ctx, parsed.String())
	if err != nil {
		return nil, err
	}
	return blob.PrefixedBucket(bucket, prefix), nil
}

// Run runs a controller with the flags in args until ctx ends.
func Run(ctx context.Context, args []string) error {
	var o options
	if err := o.parse(args); err != nil {
		return err
	}
	ctrl.SetLogger(logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, nil)))
	bucket, err := openBucket(ctx, o.bucket)
	if err != nil {
		return fmt.Errorf("open the bucket of --bucket: %w", err)
	}
	defer func() { _ = bucket.Close() }()

	cluster, err := v1.Cluster()
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := v1.AddToScheme(scheme); err != nil {
		return err
	}
	manager, err := ctrl.NewManager(cluster, ctrl.Options{
		Scheme: scheme, Metrics: server.Options{BindAddress: "0"},
		Cache: cache.Options{DefaultNamespaces: map[string]cache.Config{o.namespace: {}}},
	})
	if err != nil {
		return fmt.Errorf("reach the cluster: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	working, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(errStopped)
	r := &reconciler{
		options: o, client: manager.GetClient(), live: manager.GetAPIReader(),
		mover: &engine.Mover{
			Bucket: bucket, PackSize: o.packSize, Streams: o.streams, Limit: engine.NewLimit(o.bytesPerSecond),
			Patience: o.patience,
		},
		id: strings.ToLower(host) + "/" + uuid.NewString(), working: working, slots: make(chan struct{}, o.transfers),
		runs: map[types.NamespacedName]*run{}, seen: map[types.NamespacedName]sighting{},
	}
	atOnce := controller.Options{MaxConcurrentReconciles: 4}
	if err := ctrl.NewControllerManagedBy(manager).For(&v1.DataTransfer{}).WithOptions(atOnce).Complete(r); err != nil {
		return err
	}
	err = manager.Start(ctx)
	stop(errStopped)
	r.active.Wait() // the transfers are released, so that another controller continues at once
	return err
}
