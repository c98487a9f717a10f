package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/klauspost/pgzip"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/server/test/world"
	"github.com/cleat-dev/cleat/server/archive"
)

// archiveBytes is how much item JSON is archived.
const archiveBytes = 100 << 20

// archiveOverGzip is the time to write 100 MB of items to an archive (each under its two paths, as the format
// has it) over the time that the same compressor with the same settings takes for the bytes of both alone.
func archiveOverGzip(ctx context.Context, _ string, report func(string, float64)) error {
	items, total := archiveItems()
	var ratios, once []float64
	for run := range runs + 1 {
		if err := ctx.Err(); err != nil {
			return err
		}
		both, err := compressAlone(items, 2)
		if err != nil {
			return err
		}
		single, err := compressAlone(items, 1)
		if err != nil {
			return err
		}
		ours, err := writeArchive(items)
		if err != nil {
			return err
		}
		if run == 0 {
			continue // warm-up
		}
		ratios = append(ratios, ours.Seconds()/both.Seconds())
		once = append(once, ours.Seconds()/single.Seconds())
		say("%d items, %d MiB: archive %.2fs, compressor alone %.2fs (each item once: %.2fs)", len(items), total>>20, ours.Seconds(), both.Seconds(), single.Seconds())
	}
	report("archive_over_gzip", median(ratios))
	report("archive_over_gzip_once", median(once))
	return nil
}

// archiveItems is the JSON of config maps and secrets of all sizes.
func archiveItems() (items [][]byte, total int) {
	objects := world.Plain(world.Spec{Prefix: "a", Namespaces: 20}, 2000)
	objects = append(objects, world.Build(world.Spec{Prefix: "b", Namespaces: 20, ConfigMaps: 500, Secrets: 100, Large: 20, LargeBytes: 900 << 10})...)
	for i := 0; total < archiveBytes; i++ {
		raw, err := json.Marshal(objects[i%len(objects)].Object)
		if err != nil {
			panic(err) // objects are made above
		}
		items = append(items, raw)
		total += len(raw)
	}
	return items, total
}

func writeArchive(items [][]byte) (time.Duration, error) {
	began := time.Now()
	w, err := archive.NewWriter(io.Discard, began)
	if err != nil {
		return 0, err
	}
	gr := schema.GroupResource{Resource: "configmaps"}
	for i, raw := range items {
		if err := w.Item(gr, "v1", true, "namespace", fmt.Sprintf("item-%06d", i), raw); err != nil {
			return 0, err
		}
	}
	err = w.Close()
	return time.Since(began), err
}

func compressAlone(items [][]byte, copies int) (time.Duration, error) {
	began := time.Now()
	w := pgzip.NewWriter(io.Discard)
	if err := w.SetConcurrency(256<<10, min(4, 1+runtime.GOMAXPROCS(0))); err != nil {
		return 0, err
	}
	for _, raw := range items {
		for range copies {
			if _, err := w.Write(raw); err != nil {
				return 0, err
			}
		}
	}
	err := w.Close()
	return time.Since(began), err
}
