package roundtrip

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/cleat-dev/cleat/examples/controlplane"
	"github.com/cleat-dev/cleat/examples/world"
)

// Options say what to run and on what.
type Options struct {
	Cleat      string          // path of the cleat binary
	PluginDir  string          // directory with the example plugin's binary
	Kubeconfig string          // an empty cluster, or one where the world's names are free
	S3         controlplane.S3 // a running S3 server
	Bucket     string          // an empty bucket on it
	WorkDir    string          // for the server's log and scratch files
	World      world.Spec
	Terminal   bool      // let the CLI draw its progress bars
	Out        io.Writer // narration, one line a step
}

// Report is what came of it.
type Report struct {
	Objects     int // compared
	Kinds       int
	Differences []world.Difference
	Marked      int // objects in the archive's resource list that the example plugin saw
	Backup      time.Duration
	Restore     time.Duration
}

// Run does the whole round trip. It leaves the cluster as it found it but for the custom resource definitions
// of velero.io and the namespace "velero".
func Run(ctx context.Context, o Options) (_ *Report, err error) {
	n := &narrator{out: o.Out, start: time.Now()}
	client, err := world.NewClient(o.Kubeconfig)
	if err != nil {
		return nil, err
	}
	cli := &cleat{options: o}

	n.step("installing the custom resource definitions and a backup storage location on S3")
	if err := cli.run(ctx, "install", "--crds-only"); err != nil {
		return nil, err
	}
	if err := prepare(ctx, client, o); err != nil {
		return nil, err
	}

	n.step("starting the server, with the example plugin as a process of its own")
	server, err := cli.serve(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	if err := awaitLocation(ctx, client); err != nil {
		return nil, fmt.Errorf("%w; the server's log ends:\n%s", err, server.tail())
	}

	objects := world.Build(o.World)
	n.step("creating %d objects in %d namespaces", len(objects), o.World.Namespaces)
	var created atomic.Int64
	if err := client.Create(ctx, objects, &created); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			return // left for a look
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
	if err := cli.run(ctx, "backup", "create", o.World.Prefix, "--include-namespaces", namespaces, "--include-cluster-resources=true", "--wait"); err != nil {
		return nil, fmt.Errorf("%w; the server's log ends:\n%s", err, server.tail())
	}
	report.Backup = time.Since(began)
	n.step("backed up in %.1fs", report.Backup.Seconds())

	n.step("deleting the %d namespaces and all that was made outside of them", o.World.Namespaces)
	if err := client.Delete(ctx, objects); err != nil {
		return nil, err
	}

	began = time.Now()
	if err := cli.run(ctx, "restore", "create", o.World.Prefix, "--from-backup", o.World.Prefix, "--wait"); err != nil {
		return nil, fmt.Errorf("%w; the server's log ends:\n%s", err, server.tail())
	}
	report.Restore = time.Since(began)
	n.step("restored in %.1fs", report.Restore.Seconds())

	after, err := client.Settled(ctx, o.World)
	if err != nil {
		return nil, err
	}
	report.Objects = len(before)
	report.Differences = world.Compare(before, after)
	if report.Marked, err = marked(filepath.Join(o.WorkDir, "server.log")); err != nil {
		return nil, err
	}
	n.step("the example plugin worked on %d objects", report.Marked)
	return report, nil
}

// narrator prints one line a step, with the seconds since the beginning.
type narrator struct {
	out   io.Writer
	start time.Time
}

func (n *narrator) step(format string, args ...any) {
	fmt.Fprintf(n.out, "%5.1fs  %s\n", time.Since(n.start).Seconds(), fmt.Sprintf(format, args...))
}
