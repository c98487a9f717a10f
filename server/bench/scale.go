package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/cleat-dev/cleat/server/test/roundtrip"
	"github.com/cleat-dev/cleat/server/test/world"
)

// perScaleNamespace is the number of objects in each namespace.
const perScaleNamespace = 100

// scale backs up a tenth of so many objects and all of them, lists them, restores them into an empty cluster, and backs
// those up again to compare the two. It prints a table in Markdown.
func scale(ctx context.Context, cleat string, objects int) error {
	fmt.Println("| objects | work | seconds | bare seconds | ratio | peak MB |\n|---|---|---|---|---|---|")
	for _, n := range []int{objects / 10, objects} {
		if err := scaleTo(ctx, cleat, n); err != nil {
			return fmt.Errorf("%d objects: %w", n, err)
		}
	}
	return nil
}

func scaleTo(ctx context.Context, cleat string, n int) (err error) {
	row := func(work string, took, bare time.Duration, peak float64) {
		compared := " | "
		if bare > 0 {
			compared = fmt.Sprintf("%.1f | %.2f", bare.Seconds(), took.Seconds()/bare.Seconds())
		}
		fmt.Printf("| %d | %s | %.1f | %s | %.0f |\n", n, work, took.Seconds(), compared, peak)
	}
	bucket, err := os.MkdirTemp("", "cleat-scale-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(bucket)) }()
	var created time.Duration
	backUp := onSite(func(ctx context.Context, s *site, _ func(string, float64)) error {
		spec := world.Spec{Prefix: "scale", Namespaces: n / perScaleNamespace}
		say("creating %d objects in %d namespaces", n, spec.Namespaces)
		began := time.Now()
		if err := s.client.CreateBare(ctx, world.Plain(spec, perScaleNamespace), 4*world.Workers); err != nil {
			return err
		}
		created = time.Since(began)
		bare, err := bareBackup(ctx, s)
		if err != nil {
			return err
		}
		took, peak, err := s.alone(ctx, func() (time.Duration, error) { return s.backUp(ctx, "scale", n) })
		if err != nil {
			return err
		}
		row("backup", took, bare, peak)
		took, peak, err = s.list(ctx, "scale", n)
		if err != nil {
			return err
		}
		row("`cleat manifest ls --count`", took, 0, peak)
		return os.CopyFS(bucket, os.DirFS(filepath.Join(s.S3.Dir, s.Bucket)))
	})
	restore := onSite(func(ctx context.Context, s *site, _ func(string, float64)) error {
		if err := os.CopyFS(filepath.Join(s.S3.Dir, s.Bucket), os.DirFS(bucket)); err != nil {
			return err
		}
		took, peak, err := s.alone(ctx, func() (time.Duration, error) {
			if err := s.awaitBackup(ctx, "scale"); err != nil {
				return 0, err
			}
			took, _, err := s.restore(ctx, "scale", map[string]any{"backupName": "scale"})
			return took, err
		})
		if err != nil {
			return err
		}
		row("restore", took, created, peak)
		if _, _, err := s.alone(ctx, func() (time.Duration, error) { return s.backUp(ctx, "again", n) }); err != nil {
			return err
		}
		_, _, err = s.list(ctx, "again", n)
		return err
	})
	nothing := func(string, float64) {}
	if err := backUp(ctx, cleat, nothing); err != nil {
		return err
	}
	return restore(ctx, cleat, nothing)
}

// alone does work with a server of its own, and returns the time of the work and the peak of the server's memory in MB.
func (s *site) alone(
	ctx context.Context, work func() (time.Duration, error),
) (took time.Duration, peak float64, err error) {
	server, err := s.Serve(ctx, s.client)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	if took, err = work(); err != nil {
		return 0, 0, err
	}
	kib, err := peakOf(server.PID())
	return took, kib * 1024 / 1e6, err
}

// backUp backs up the objects of the scale, and checks their number.
func (s *site) backUp(ctx context.Context, name string, n int) (time.Duration, error) {
	took, done, err := s.backup(ctx, name, map[string]any{"includedNamespaces": []any{"scale-*"}})
	if err != nil {
		return 0, err
	}
	if items, _, _ := unstructured.NestedInt64(done.Object, "status", "progress", "itemsBackedUp"); items < int64(n) {
		return 0, fmt.Errorf("the backup %s has %d items, want %d", name, items, n)
	}
	return took, nil
}

// list counts the items of a backup by its manifest, and checks their number.
func (s *site) list(ctx context.Context, name string, n int) (time.Duration, float64, error) {
	command := exec.CommandContext(ctx, s.Cleat, "manifest", "ls", name, "--count", "-o", "json", "--kubeconfig",
		s.Kubeconfig, "--namespace", roundtrip.Namespace)
	command.Stderr = os.Stderr
	began := time.Now()
	out, err := command.Output()
	if err != nil {
		return 0, 0, fmt.Errorf("list the manifest of %s: %w", name, err)
	}
	took := time.Since(began)
	var counts []struct{ Items int }
	if err := json.Unmarshal(out, &counts); err != nil {
		return 0, 0, fmt.Errorf("list the manifest of %s: %w", name, err)
	}
	items := 0
	for _, one := range counts {
		items += one.Items
	}
	if items < n {
		return 0, 0, fmt.Errorf("the manifest of %s has %d items, want %d or more", name, items, n)
	}
	usage, ok := command.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0, 0, errors.New("the system does not report the peak of resident memory of a process that has ended")
	}
	return took, float64(usage.Maxrss) * 1024 / 1e6, nil
}

// awaitBackup waits until the server has brought a backup of the bucket into the cluster.
func (s *site) awaitBackup(ctx context.Context, name string) error {
	backups := schema.GroupVersionResource{Group: "velero.io", Version: "v1", Resource: "backups"}
	return wait.PollUntilContextTimeout(ctx, time.Second, 5*time.Minute, true, func(ctx context.Context) (bool, error) {
		_, err := s.dynamic.Resource(backups).Namespace(roundtrip.Namespace).Get(ctx, name, metav1.GetOptions{})
		return err == nil, nil
	})
}
