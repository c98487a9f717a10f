package roundtrip

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/cleat-dev/cleat/server/test/described"
	"github.com/cleat-dev/cleat/server/test/world"
)

// Options configure a round trip.
type Options struct {
	Site
	World  world.Spec // its names must not exist in the cluster
	Keep   bool       // do not delete the world at the end
	Out    io.Writer  // receives a line for each step
	Movers string     // the directory with the plugins of the function Movers
}

// Report is the result of a round trip.
type Report struct {
	Objects     int // compared
	Kinds       int
	Differences []world.Difference
	Described   int // items of the manifest, which must be the same as in the archive
	Marked      int // objects in the archive's resource list that the example plugin processed
	Backup      time.Duration
	Restore     time.Duration
}

// Run makes a round trip. Afterwards the cluster is the same as before, except for the custom resource definitions of
// velero.io and the namespace "velero".
func Run(ctx context.Context, o Options) (_ *Report, err error) {
	n := &narrator{out: o.Out, start: time.Now()}
	client, err := world.NewClient(o.Kubeconfig)
	if err != nil {
		return nil, err
	}
	n.step("installing the custom resource definitions and a backup storage location on S3")
	if err := o.Install(ctx, client); err != nil {
		return nil, err
	}
	n.step("starting the server, with the example plugin as a separate process")
	server, err := o.Serve(ctx, client)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()

	objects := world.Build(o.World)
	n.step("creating %d objects in %d namespaces", len(objects), o.World.Namespaces)
	var created atomic.Int64
	if err := client.Create(ctx, objects, &created); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil || o.Keep {
			return // after an error, the objects are kept for inspection
		}
		n.step("cleaning up")
		err = client.Delete(ctx, objects)
	}()
	before, err := client.Settled(ctx, o.World)
	if err != nil {
		return nil, err
	}
	report := &Report{Kinds: before.Kinds()}
	n.step("the cluster has settled: %d objects of %d kinds to keep", len(before), report.Kinds)

	namespaces := o.World.Prefix + "-*"
	began := time.Now()
	if err := o.Run(ctx, "backup", "create", o.World.Prefix, "--include-namespaces", namespaces,
		"--include-cluster-resources=true", "--wait"); err != nil {
		return nil, fmt.Errorf("%w; end of the server's log:\n%s", err, server.Tail())
	}
	report.Backup = time.Since(began)
	n.step("backed up in %.1fs", report.Backup.Seconds())
	if report.Described, err = o.described(ctx, o.World.Prefix); err != nil {
		return nil, err
	}
	n.step("its manifest and its archive have the same %d items", report.Described)

	n.step("deleting the %d namespaces and all that was made outside of them", o.World.Namespaces)
	if err := client.Delete(ctx, objects); err != nil {
		return nil, err
	}

	began = time.Now()
	if err := o.Run(ctx, "restore", "create", o.World.Prefix, "--from-backup", o.World.Prefix, "--wait"); err != nil {
		return nil, fmt.Errorf("%w; end of the server's log:\n%s", err, server.Tail())
	}
	report.Restore = time.Since(began)
	n.step("restored in %.1fs", report.Restore.Seconds())

	after, err := client.Settled(ctx, o.World)
	if err != nil {
		return nil, err
	}
	report.Objects = len(before)
	report.Differences = world.Compare(before, after)
	if report.Marked, err = marked(server.log); err != nil {
		return nil, err
	}
	n.step("the example plugin worked on %d objects", report.Marked)
	return report, nil
}

// described returns the number of items in the manifest of a backup. It returns an error unless they match its
// archive.
func (o *Options) described(ctx context.Context, backup string) (int, error) {
	dir := filepath.Join(o.S3.Dir, o.Bucket, "backups", backup)
	archive, err := os.Open(filepath.Join(dir, backup+".tar.gz"))
	if err != nil {
		return 0, err
	}
	defer archive.Close()
	stored, err := os.Open(filepath.Join(dir, backup+"-manifest.json.gz"))
	if err != nil {
		return 0, err
	}
	defer stored.Close()
	items, differences, err := described.Compare(ctx, backup, archive, stored)
	if err == nil && len(differences) > 0 {
		err = fmt.Errorf("%d differences, the first: %s", len(differences), differences[0])
	}
	if err != nil {
		return 0, fmt.Errorf("compare the manifest of %s with its archive: %w", backup, err)
	}
	return items, nil
}

// marked returns the number of objects that the example plugin has marked, according to its lines in the server's log.
func marked(logFile string) (int, error) {
	log, err := os.ReadFile(logFile)
	if err != nil {
		return 0, fmt.Errorf("read the server's log: %w", err)
	}
	return bytes.Count(log, []byte("marked for backup")), nil
}

// narrator prints a line for each step, with the seconds since the start.
type narrator struct {
	out   io.Writer
	start time.Time
}

func (n *narrator) step(format string, args ...any) {
	fmt.Fprintf(n.out, "%5.1fs  %s\n", time.Since(n.start).Seconds(), fmt.Sprintf(format, args...))
}
