package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/parquet-go/parquet-go"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/framework/manifest"
	mwv1 "github.com/cleat-dev/cleat/framework/manifestwriter/v1"
)

// tableFile is the name of the artifact of table.
const tableFile = "items.parquet"

// rowsAtOnce is the number of rows in a row group, which is in memory until it is full.
const rowsAtOnce = 10_000

// row is one item.
type row struct {
	Group       string            `parquet:"group,dict"`
	Version     string            `parquet:"version,dict"`
	Resource    string            `parquet:"resource,dict"`
	Kind        string            `parquet:"kind,dict"`
	Namespace   string            `parquet:"namespace,dict"`
	Name        string            `parquet:"name"`
	UID         string            `parquet:"uid"`
	Labels      map[string]string `parquet:"labels"`
	Annotations map[string]string `parquet:"annotations"`
	Edges       []edge            `parquet:"edges,list"`
	IncludedBy  string            `parquet:"included_by,dict"`
}

// edge is a dependency of an item.
type edge struct {
	Type      string `parquet:"type,dict"`
	Strict    bool   `parquet:"strict"`
	Group     string `parquet:"group,dict"`
	Resource  string `parquet:"resource,dict"`
	Kind      string `parquet:"kind,dict"`
	Namespace string `parquet:"namespace,dict"`
	Name      string `parquet:"name"`
	UID       string `parquet:"uid"`
	Path      string `parquet:"path,dict"`
	Plugin    string `parquet:"plugin,dict"`
}

// table writes the items of a backup as a table in Parquet, sorted by resource, namespace, and name, so that a query
// of one namespace reads only a small part of it.
type table struct{}

func newTable(context.Context, *framework.Setup) (mwv1.ManifestWriter, error) { return table{}, nil }

// Write implements mwv1.ManifestWriter. Items are sorted in a temporary file: a column of a Parquet file is small only
// if equal values are together, and a repeated item replaces the earlier one.
func (table) Write(_ context.Context, input *mwv1.WriteInput) (err error) {
	sorted, err := os.CreateTemp("", "manifest-writers-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sorted.Close(), os.Remove(sorted.Name())) }()
	if err := sortItems(sorted, input); err != nil {
		return err
	}
	if _, err := sorted.Seek(0, io.SeekStart); err != nil {
		return err
	}
	file, err := input.Artifacts.Create(tableFile)
	if err != nil {
		return err
	}
	return writeTable(file, sorted, input)
}

// sortItems writes the items as a manifest, which is sorted.
func sortItems(file io.Writer, input *mwv1.WriteInput) error {
	header := manifest.Header{Backup: manifest.Backup{Name: input.Backup.Name}}
	sorter, err := manifest.NewWriter(file, header, manifest.Options{})
	if err != nil {
		return err
	}
	defer sorter.Abort()
	for item, err := range input.Items {
		if err != nil {
			return err
		}
		if err := sorter.Add(item.Document()); err != nil {
			return err
		}
	}
	return sorter.Close()
}

// writeTable writes the items of a manifest as a table.
func writeTable(file io.Writer, sorted io.Reader, input *mwv1.WriteInput) error {
	items, err := manifest.NewReader(sorted)
	if err != nil {
		return err
	}
	writer := parquet.NewGenericWriter[row](file,
		parquet.MaxRowsPerRowGroup(rowsAtOnce),
		parquet.Compression(&parquet.Zstd),
		parquet.KeyValueMetadata("backup", input.Backup.Namespace+"/"+input.Backup.Name),
		parquet.KeyValueMetadata("backup_uid", string(input.Backup.UID)),
	)
	for item, err := range items.Items() {
		if err != nil {
			return err
		}
		if _, err := writer.Write([]row{newRow(item)}); err != nil {
			return fmt.Errorf("write %s %s/%s to the table: %w", item.Resource, item.Namespace, item.Name, err)
		}
	}
	return writer.Close()
}

func newRow(item *manifest.Item) row {
	r := row{
		Group: item.APIGroup, Version: item.APIVersion, Resource: item.Resource, Kind: item.ItemKind,
		Namespace: item.Namespace, Name: item.Name, UID: item.UID,
		Labels: item.Labels, Annotations: item.Annotations, IncludedBy: item.Included.By,
	}
	for _, e := range item.Edges {
		r.Edges = append(r.Edges, edge{
			Type: string(e.Type), Strict: e.Strict, Path: e.Path, Plugin: e.Plugin,
			Group: e.To.Group, Resource: e.To.Resource, Kind: e.To.Kind, Namespace: e.To.Namespace, Name: e.To.Name,
			UID: e.To.UID,
		})
	}
	return r
}
