// Package described compares the manifest of a backup with its archive.
package described

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"

	"github.com/cleat-dev/cleat/framework/manifest"
	servermanifest "github.com/cleat-dev/cleat/server/internal/bucket/manifest"
	"github.com/cleat-dev/cleat/server/internal/bucket/reference"
)

// Compare compares the stored manifest of a backup with one that it makes from the archive. It returns the number of
// items of the stored one, and the items that differ or are only in one of them, except for information that is not in
// an archive: how an item came into the backup, and what actions have requested for it. An item without the former is
// a difference as well.
func Compare(
	ctx context.Context, backup string, archive, stored io.Reader,
) (items int, differences []string, err error) {
	var rebuilt bytes.Buffer
	header := manifest.Header{Backup: manifest.Backup{Name: backup}}
	if err := servermanifest.FromArchive(ctx, archive, header, reference.BuiltIn(), &rebuilt,
		manifest.Options{}); err != nil {
		return 0, nil, err
	}
	want, _, err := manifest.Load(&rebuilt)
	if err != nil {
		return 0, nil, err
	}
	got, header, err := manifest.Load(stored)
	if err != nil {
		return 0, nil, err
	}
	if header.Backup.Name != backup {
		differences = append(differences, fmt.Sprintf("it is the manifest of %q", header.Backup.Name))
	}
	for item := range got.Items() {
		items++
		if item.Included.By == "" {
			differences = append(differences, item.String()+" does not say how it came in")
		}
	}
	archived, described := plain(want), plain(got)
	for _, name := range slices.Sorted(maps.Keys(archived)) {
		if one, there := described[name]; !there || !reflect.DeepEqual(one, archived[name]) {
			differences = append(differences, fmt.Sprintf("%s is %+v, want %+v", name, one, archived[name]))
		}
		delete(described, name)
	}
	for name := range described {
		differences = append(differences, name+" is not in the archive")
	}
	return items, differences, nil
}

// plain returns the information about the items of a manifest that an archive has, too.
func plain(of *manifest.Manifest) map[string]manifest.Item {
	items := map[string]manifest.Item{}
	for item := range of.Items() {
		one := *item
		one.Manifest, one.Included, one.Edges = nil, manifest.Inclusion{}, nil
		for _, edge := range item.Edges {
			if edge.Type != manifest.Action {
				one.Edges = append(one.Edges, edge)
			}
		}
		items[item.String()] = one
	}
	return items
}
