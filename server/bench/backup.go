package main

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/cleat-dev/cleat/server/test/world"
)

// backupOverLimit reports the time from the creation of a Backup to Completed, divided by the time of a bare program
// that pages the same lists and compresses the bytes into a file with gzip. It also reports the time of a dry run,
// divided by the time of the backup. There are about 6,600 objects; the server is warm.
func backupOverLimit(ctx context.Context, s *site, report func(string, float64)) (err error) {
	server, err := s.Serve(ctx, s.client)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	if _, _, err := s.backup(ctx, "warm-up", nil); err != nil {
		return err
	}
	if _, err := bareBackup(ctx, s); err != nil {
		return err
	}
	if _, err := s.dryRun(ctx, "warm-up-dry-run"); err != nil {
		return err
	}
	var ratios, dryRatios []float64
	for run := range runs {
		limit, err := bareBackup(ctx, s)
		if err != nil {
			return err
		}
		ours, done, err := s.backup(ctx, fmt.Sprintf("run-%d", run), nil)
		if err != nil {
			return err
		}
		dry, err := s.dryRun(ctx, fmt.Sprintf("run-%d-dry-run", run))
		if err != nil {
			return err
		}
		items, _, _ := unstructured.NestedInt64(done.Object, "status", "progress", "itemsBackedUp")
		ratios = append(ratios, ours.Seconds()/limit.Seconds())
		dryRatios = append(dryRatios, dry.Seconds()/ours.Seconds())
		say("%d items: backup %.3fs, bare %.3fs, ratio %.2f; dry run %.3fs", items, ours.Seconds(), limit.Seconds(),
			ratios[run], dry.Seconds())
	}
	report("backup_over_limit", median(ratios))
	report("dryrun_over_backup", median(dryRatios))
	return nil
}

// populate creates the objects of the backup benchmarks.
func (s *site) populate(ctx context.Context) error {
	spec := world.Spec{Prefix: "bench", Namespaces: 20, ConfigMaps: 180, Secrets: 85, Large: 2, LargeBytes: 300 << 10}
	objects := world.Build(spec)
	say("creating %d objects", len(objects))
	if err := s.client.Create(ctx, objects, new(atomic.Int64)); err != nil {
		return err
	}
	_, err := s.client.Settled(ctx, spec)
	return err
}

// bareBackup pages all lists that a backup of the whole cluster pages, into a gzip file.
func bareBackup(ctx context.Context, s *site) (time.Duration, error) {
	d, err := discovery.NewDiscoveryClientForConfig(s.client.Config())
	if err != nil {
		return 0, err
	}
	lists, err := d.ServerPreferredResources()
	if err != nil {
		return 0, err
	}
	config := rest.CopyConfig(s.client.Config())
	config.NegotiatedSerializer = rawSerializer
	client, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return 0, err
	}
	file, err := os.Create(filepath.Join(s.WorkDir, "bare.gz"))
	if err != nil {
		return 0, err
	}
	defer file.Close()

	began := time.Now()
	out := gzip.NewWriter(file)
	for _, list := range lists {
		prefix := "/apis/" + list.GroupVersion
		if !strings.Contains(list.GroupVersion, "/") {
			prefix = "/api/" + list.GroupVersion
		}
		for _, r := range list.APIResources {
			if !backedUp(r.Verbs) {
				continue
			}
			if err := page(ctx, client, prefix+"/"+r.Name, out); err != nil {
				return 0, err
			}
		}
	}
	if err := out.Close(); err != nil {
		return 0, err
	}
	return time.Since(began), nil
}

func backedUp(verbs []string) bool {
	for _, v := range []string{"list", "create", "get", "delete"} {
		if !slices.Contains(verbs, v) {
			return false
		}
	}
	return true
}

func page(ctx context.Context, client rest.Interface, path string, out io.Writer) error {
	next := ""
	for {
		raw, err := client.Get().AbsPath(path).Param("limit", "500").Param("continue", next).Do(ctx).Raw()
		if err != nil {
			return fmt.Errorf("list %s: %w", path, err)
		}
		if _, err := out.Write(raw); err != nil {
			return err
		}
		// The continue token is in the list's metadata, before the items.
		head := raw[:min(len(raw), 8<<10)]
		if next = token(head); next == "" {
			return nil
		}
	}
}

// token returns the continue token in the first bytes of a list.
func token(head []byte) string {
	_, rest, found := strings.Cut(string(head), `"continue":`)
	if before, _, items := strings.Cut(string(head), `"items":`); !found || (items && len(before) < len(head)-len(rest)) {
		return ""
	}
	var value string
	if err := json.NewDecoder(strings.NewReader(rest)).Decode(&value); err != nil {
		return ""
	}
	return value
}
