package manifest

import (
	"bytes"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Version is the version of the format that this package writes, and the highest that it reads.
const Version = 1

// FormatVersion is the version of the format of backups that have a manifest.
const FormatVersion = "1.2.0"

// FileName is the name of a manifest among the files of a backup, where it follows the name of the backup and a dash.
const FileName = "manifest.json.gz"

// MaxLine is the number of bytes that one item may have in the file.
const MaxLine = 4 << 20

// Items are compressed in blocks, so that one can be read without the others. A block ends when it has as many items or
// bytes.
const (
	blockItems = 256
	blockBytes = 1 << 20
	maxBlock   = blockBytes + MaxLine + 2 // before compression
)

// Schema is the JSON Schema of the document.
//
//go:embed schema.json
var Schema []byte

// Header is the description of a manifest in its first line.
type Header struct {
	// FormatVersion is that of the backup. A Writer sets it to FormatVersion if it is empty.
	FormatVersion string `json:"formatVersion"`
	// Backup is the backup whose items these are.
	Backup Backup `json:"backup"`
	// OmittedAnnotations are the keys of annotations that were left out of all items.
	OmittedAnnotations []string `json:"omittedAnnotations,omitempty"`
}

// Backup is the backup of a manifest.
type Backup struct {
	Name      string     `json:"name"`
	Namespace string     `json:"namespace,omitempty"`
	UID       string     `json:"uid,omitempty"`
	Started   *time.Time `json:"started,omitempty"`
	// DryRun is set if nothing was stored.
	DryRun bool `json:"dryRun,omitempty"`
}

// The index has a line for each block, and is in parts of so many lines, each a member of gzip. The last member begins
// with rootsStart and has a line for each part.
const (
	indexLines = 64
	indexStart = "\n],\"index\":[\n"
	rootsStart = "],\"roots\":[\n"
)

// The footer is an empty member of gzip, whose extra field has the position of the last member before it. It has a
// fixed length, so it can be found from the end of a file.
const footerSize = 46

var (
	footerStart = []byte{
		0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 0, 0xff, // gzip, deflate, with an extra field
		24, 0, 'C', 'I', 20, 0, // length, id and length of the field
	}
	footerEnd = []byte{3, 0, 0, 0, 0, 0, 0, 0, 0, 0} // no content, its checksum and length
)

// encodeFooter returns the footer for a last member of size bytes at offset.
func encodeFooter(offset, size int64) []byte {
	footer := slices.Clone(footerStart)
	footer = binary.LittleEndian.AppendUint32(footer, Version)
	footer = binary.LittleEndian.AppendUint64(footer, uint64(offset))
	footer = binary.LittleEndian.AppendUint64(footer, uint64(size))
	return append(footer, footerEnd...)
}

// ErrNoIndex is the error of Open for a file without an index, such as a manifest that was compressed again. NewReader
// may read it.
const ErrNoIndex = Error("there is no index at the end of the manifest")

// decodeFooter returns where the last member is according to the last bytes of a file of total bytes.
func decodeFooter(tail []byte, total int64) (offset, size int64, err error) {
	if len(tail) < footerSize {
		return 0, 0, ErrNoIndex
	}
	footer := tail[len(tail)-footerSize:]
	rest, ok := bytes.CutPrefix(footer, footerStart)
	if !ok {
		return 0, 0, ErrNoIndex
	}
	version := binary.LittleEndian.Uint32(rest)
	if version != Version {
		return 0, 0, versionError(int64(version))
	}
	if !bytes.Equal(rest[20:], footerEnd) {
		return 0, 0, ErrNoIndex
	}
	offset, size = int64(binary.LittleEndian.Uint64(rest[4:])), int64(binary.LittleEndian.Uint64(rest[12:]))
	if end := total - footerSize; offset <= 0 || size <= 0 || offset > end || size != end-offset {
		return 0, 0, fmt.Errorf("the footer says that %d bytes at %d end the manifest, which has %d bytes", size, offset,
			total)
	}
	return offset, size, nil
}

func versionError(version int64) error {
	if version > Version {
		return fmt.Errorf("the manifest has version %d, this program knows versions up to %d: use a newer one", version,
			Version)
	}
	return errors.New("the manifest has no version: want \"manifest\": 1 first in it")
}
