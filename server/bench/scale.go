package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/cleat-dev/cleat/server/test/roundtrip"
	"github.com/cleat-dev/cleat/server/test/world"
)

const (
	// perScaleNamespace is the number of objects in each namespace.
	perScaleNamespace = 100
	// namespacesAtOnce is for how many namespaces the objects are in memory, so that the machine has room for the cluster.
	namespacesAtOnce = 1000
)

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
		say("creating %d objects in %d namespaces", n, n/perScaleNamespace)
		began := time.Now()
		for left := n / perScaleNamespace; left > 0; left -= namespacesAtOnce {
			spec := world.Spec{Prefix: fmt.Sprintf("scale-%d", left), Namespaces: min(left, namespacesAtOnce)}
			if err := s.client.CreateBare(ctx, world.Plain(spec, perScaleNamespace), 4*world.Workers); err != nil {
				return err
			}
		}
		created = time.Since(began)
		bare, err := bareBackup(ctx, s)
		if err != nil {
			return err
		}
		var listed time.Duration
		var listing float64
		took, peak, err := s.alone(ctx, func() (took time.Duration, err error) {
			if took, err = s.backUp(ctx, "scale", n); err != nil {
				return 0, err
			}
			listed, listing, err = s.list(ctx, "scale", n)
			return took, err
		})
		if err != nil {
			return err
		}
		row("backup", took, bare, peak)
		row("`cleat manifest ls --count`", listed, 0, listing)
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
		_, _, err = s.alone(ctx, func() (time.Duration, error) {
			if _, err := s.backUp(ctx, "again", n); err != nil {
				return 0, err
			}
			_, _, err := s.list(ctx, "again", n)
			return 0, err
		})
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
	var out bytes.Buffer
	command := exec.CommandContext(ctx, s.Cleat, "manifest", "ls", name, "--count", "-o", "json", "--kubeconfig",
		s.Kubeconfig, "--namespace", roundtrip.Namespace)
	command.Stdout, command.Stderr = &out, os.Stderr
	began := time.Now()
	if err := command.Start(); err != nil {
		return 0, 0, err
	}
	peak := make(chan float64)
	ended := make(chan struct{})
	go func() {
		// What wait(2) reports includes the peak of this process, whose memory the new one shares until it executes cleat.
		var most float64
		for {
			if kib, err := peakOf(command.Process.Pid); err == nil {
				most = max(most, kib)
			}
			select {
			case <-ended:
				peak <- most
				return
			case <-time.After(2 * time.Millisecond):
			}
		}
	}()
	err := command.Wait()
	took := time.Since(began)
	close(ended)
	kib := <-peak
	if err != nil {
		return 0, 0, fmt.Errorf("list the manifest of %s: %w", name, err)
	}
	var counts []struct{ Items int }
	if err := json.Unmarshal(out.Bytes(), &counts); err != nil {
		return 0, 0, fmt.Errorf("list the manifest of %s: %w", name, err)
	}
	items := 0
	for _, one := range counts {
		items += one.Items
	}
	if items < n {
		return 0, 0, fmt.Errorf("the manifest of %s has %d items, want %d or more", name, items, n)
	}
	return took, kib * 1024 / 1e6, nil
}

// awaitBackup waits until the server has brought a backup of the bucket into the cluster.
func (s *site) awaitBackup(ctx context.Context, name string) error {
	backups := schema.GroupVersionResource{Group: "velero.io", Version: "v1", Resource: "backups"}
	return wait.PollUntilContextTimeout(ctx, time.Second, 5*time.Minute, true, func(ctx context.Context) (bool, error) {
		_, err := s.dynamic.Resource(backups).Namespace(roundtrip.Namespace).Get(ctx, name, metav1.GetOptions{})
		return err == nil, nil
	})
}
