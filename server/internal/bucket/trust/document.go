package trust

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/kube/foreign"
)

// Version is the version of the format of checksums.
const Version = "1"

// Document is the checksums of a backup.
type Document struct {
	// Format is Version. A reader refuses others.
	Format string `json:"format"`
	Backup Backup `json:"backup"`
	// Signed is when the document was made, by the clock of the server.
	Signed time.Time `json:"signed"`
	// Cluster identifies the cluster of the server: the UID of its namespace kube-system. It is empty if that is not
	// known.
	Cluster string   `json:"cluster,omitempty"`
	Files   []File   `json:"files"`
	Volumes []Volume `json:"volumes,omitempty"`
}

// Backup identifies a backup. It does not name its bucket, which may be copied.
type Backup struct {
	Name       string     `json:"name"`
	Namespace  string     `json:"namespace"`
	UID        string     `json:"uid"`
	Started    *time.Time `json:"started,omitempty"`
	Completed  *time.Time `json:"completed,omitempty"`
	Expiration *time.Time `json:"expiration,omitempty"`
}

// File is a file in the directory of a backup.
type File struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`   // bytes
	SHA256 string `json:"sha256"` // hexadecimal
}

// VolumeKind is where the snapshot of a volume is.
type VolumeKind string

// Kinds of volumes.
const (
	Native     VolumeKind = "native"     // at the provider of a VolumeSnapshotLocation
	CSI        VolumeKind = "csi"        // at the storage system of a CSI driver
	Repository VolumeKind = "repository" // in the repository of a data mover
)

// Volume is the snapshot of a volume.
type Volume struct {
	Kind VolumeKind `json:"kind"`
	// Of is the volume, for people: "claim shop/data".
	Of string `json:"of"`
	// Snapshot is its identifier where it is.
	Snapshot string `json:"snapshot"`
	// By is the VolumeSnapshotLocation, the CSI driver, or the data mover.
	By string `json:"by,omitempty"`
	// Namespace is that of the repository.
	Namespace string `json:"namespace,omitempty"`
}

// Encode returns the bytes to store and to sign.
func (d *Document) Encode() ([]byte, error) {
	slices.SortFunc(d.Files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	data, err := json.MarshalIndent(d, "", " ")
	if err != nil {
		return nil, fmt.Errorf("encode the checksums of backup %s: %w", d.Backup.Name, err)
	}
	return append(data, '\n'), nil
}

// Sums returns the sums of the files by their names.
func (d *Document) Sums() store.Tally {
	sums := store.Tally{}
	for _, f := range d.Files {
		sums[f.Name] = store.Sum{SHA256: f.SHA256, Size: f.Size}
	}
	return sums
}

// limits bound the documents. A cluster has 150,000 pods at most.
func limits() foreign.Limits {
	return foreign.Limits{Bytes: 64 << 20, Values: 2_000_000, Depth: 8}
}

// Parse reads checksums. Its error says what is wrong with them.
func Parse(data []byte) (*Document, error) {
	d := new(Document)
	if err := foreign.Unmarshal(data, d, limits()); err != nil {
		return nil, err
	}
	switch {
	case d.Format != Version:
		return nil, fmt.Errorf("format %q, want %q; a newer server has made them", d.Format, Version)
	case d.Backup.Name == "" || d.Backup.UID == "":
		return nil, errors.New("backup has no name or no uid")
	case len(d.Files) == 0:
		return nil, errors.New("files is empty, want at least velero-backup.json")
	}
	seen := map[string]bool{}
	for i, f := range d.Files {
		sum, err := hex.DecodeString(f.SHA256)
		switch {
		case f.Name == "" || f.Name == "." || f.Name == ".." || strings.ContainsAny(f.Name, "/\x00"):
			return nil, fmt.Errorf("files[%d].name is %q, want the name of a file", i, f.Name)
		case seen[f.Name]:
			return nil, fmt.Errorf("files[%d].name: %s is there twice", i, f.Name)
		case err != nil || len(sum) != 32 || strings.ToLower(f.SHA256) != f.SHA256:
			return nil, fmt.Errorf("files[%d].sha256 of %s: want 64 hexadecimal digits in lower case", i, f.Name)
		case f.Size < 0:
			return nil, fmt.Errorf("files[%d].size of %s is %d, want the number of bytes", i, f.Name, f.Size)
		}
		seen[f.Name] = true
	}
	if !seen[store.MetadataFile] {
		return nil, fmt.Errorf("files lacks %s", store.MetadataFile)
	}
	return d, nil
}
