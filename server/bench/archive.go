package main

import (
	"archive/tar"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/klauspost/compress/gzip"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
	"github.com/cleat-dev/cleat/server/test/world"
)

// archiveBytes is how much item JSON is archived.
const archiveBytes = 100 << 20

// archiveSize reports the size of an archive of 100 MB of items, divided by the size of a plain tar.gz of the same
// entries by the same library (klauspost/compress) at its default level. The sizes are the same in every run.
func archiveSize(_ context.Context, _ string, report func(string, float64)) error {
	items, total, err := archiveItems()
	if err != nil {
		return err
	}
	ours, err := writeArchive(items)
	if err != nil {
		return err
	}
	plain, err := writePlainArchive(items)
	if err != nil {
		return err
	}
	say("%d items, %d MiB: archive %d bytes, plain tar.gz %d bytes", len(items), total>>20, ours, plain)
	report("archive_size", float64(ours)/float64(plain))
	return nil
}

// archiveItems returns the JSON of config maps and secrets of all sizes.
func archiveItems() (items [][]byte, total int, err error) {
	objects := world.Plain(world.Spec{Prefix: "a", Namespaces: 20}, 2000)
	objects = append(objects, world.Build(world.Spec{Prefix: "b", Namespaces: 20, ConfigMaps: 500, Secrets: 100, Large: 20,
		LargeBytes: 900 << 10})...)
	for i := 0; total < archiveBytes; i++ {
		raw, err := json.Marshal(objects[i%len(objects)].Object)
		if err != nil {
			return nil, 0, err
		}
		items = append(items, raw)
		total += len(raw)
	}
	return items, total, nil
}

// Of every item in the archives.
const (
	archiveVersion   = "v1"
	archiveNamespace = "namespace"
)

func archiveResource() schema.GroupResource { return schema.GroupResource{Resource: "configmaps"} }

func itemName(i int) string { return fmt.Sprintf("item-%06d", i) }

// writeArchive writes the items as a backup does and returns the size of the archive.
func writeArchive(items [][]byte) (size int64, err error) {
	var out counter
	w, err := archive.NewWriter(&out, time.Now())
	if err != nil {
		return 0, err
	}
	for i, raw := range items {
		if err := w.Item(archiveResource(), archiveVersion, true, archiveNamespace, itemName(i), raw); err != nil {
			w.Abort()
			return 0, err
		}
	}
	err = w.Close()
	return int64(out), err
}

// writePlainArchive writes the entries of the same archive with archive/tar and gzip and returns its size.
func writePlainArchive(items [][]byte) (size int64, err error) {
	var out counter
	compressor := gzip.NewWriter(&out)
	w := tar.NewWriter(compressor)
	modTime := time.Now().Truncate(time.Second)
	add := func(path string, body []byte) error {
		err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: path, Size: int64(len(body)), Mode: 0o755,
			ModTime: modTime})
		if err == nil {
			_, err = w.Write(body)
		}
		return err
	}
	if err := add("metadata/version", []byte(archive.FormatVersion+"\n")); err != nil {
		return 0, err
	}
	for i, raw := range items {
		for _, version := range []string{"", archiveVersion + "-preferredversion"} {
			if err := add(archive.ItemPath(archiveResource(), version, archiveNamespace, itemName(i)), raw); err != nil {
				return 0, err
			}
		}
	}
	if err := w.Close(); err != nil {
		return 0, err
	}
	err = compressor.Close()
	return int64(out), err
}

// counter counts the bytes that are written to it.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
