package engine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"time"
)

// manifest describes the directory of a snapshot.
type manifest struct {
	Entries []entry `json:"entries"` // directories before their contents
}

// entry is a file, a directory or a symbolic link.
type entry struct {
	Path     string      `json:"path"` // slash-separated, relative to the directory; "." is the directory itself
	Mode     fs.FileMode `json:"mode"`
	Modified time.Time   `json:"modified"`
	Size     int64       `json:"size,omitempty"`
	Link     string      `json:"link,omitempty"`
	Chunks   []chunk     `json:"chunks,omitempty"` // of a file, in order
}

// chunk is a piece of a file, and its position.
type chunk struct {
	Offset int64  `json:"offset"` // in the file
	Length int64  `json:"length"`
	SHA256 string `json:"sha256"`
	Pack   string `json:"pack"`
	At     int64  `json:"at"` // in the pack
}

// index lists the chunks of one pack.
type index struct {
	Chunks []indexed `json:"chunks"`
}

// indexed is a chunk with the version of its file.
type indexed struct {
	Path     string    `json:"path"`
	Size     int64     `json:"size"`
	Modified time.Time `json:"modified"`
	chunk
}

// identity distinguishes chunks. Chunks of different versions of a file differ.
type identity struct {
	path           string
	size, modified int64
	offset, length int64
}

func identify(path string, size int64, modified time.Time, offset, length int64) identity {
	return identity{path, size, modified.UnixNano(), offset, length}
}

func packKey(snapshot, sum string) string  { return path.Join(snapshot, "packs", sum) }
func indexKey(snapshot, sum string) string { return path.Join(snapshot, "index", sum) }
func manifestKey(snapshot string) string   { return path.Join(snapshot, "manifest.json") }

func sumOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// sealed is the stored form of indexes and manifests.
type sealed struct {
	SHA256  string          `json:"sha256"`
	Content json.RawMessage `json:"content"`
}

// seal encodes an index or a manifest with its SHA-256.
func seal(value any) ([]byte, error) {
	content, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	return json.Marshal(sealed{SHA256: sumOf(content), Content: content})
}

// unseal decodes the output of seal.
func unseal(text []byte, value any) error {
	var s sealed
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	if got := sumOf(s.Content); got != s.SHA256 {
		return fmt.Errorf("its SHA-256 is %s, want %s", got, s.SHA256)
	}
	decoder := json.NewDecoder(bytes.NewReader(s.Content))
	decoder.DisallowUnknownFields()
	return decoder.Decode(value)
}

var sumPattern = regexp.MustCompile(`^[0-9a-f]{64}$`)

// MaxPack is the largest pack that a restore accepts.
const MaxPack = 1 << 30

// check returns an error for a manifest that no backup has written. A restore does not trust the bucket.
func (m *manifest) check() error {
	if len(m.Entries) == 0 || m.Entries[0].Path != "." {
		return errors.New("it does not begin with the directory")
	}
	kinds := map[string]fs.FileMode{}
	for _, e := range m.Entries {
		if err := e.check(); err != nil {
			return fmt.Errorf("entry %q: %w", e.Path, err)
		}
		if _, twice := kinds[e.Path]; twice {
			return fmt.Errorf("entry %q appears twice", e.Path)
		}
		if parent, there := kinds[path.Dir(e.Path)]; e.Path != "." && (!there || !parent.IsDir()) {
			return fmt.Errorf("entry %q comes before its directory", e.Path)
		}
		kinds[e.Path] = e.Mode
	}
	return nil
}

func (e *entry) check() error {
	if e.Path != path.Clean(e.Path) || !filepath.IsLocal(filepath.FromSlash(e.Path)) {
		return errors.New("its path is not one below the directory")
	}
	switch e.Mode.Type() {
	case fs.ModeDir, fs.ModeSymlink:
		if e.Size != 0 || len(e.Chunks) > 0 {
			return errors.New("only files have content")
		}
		return nil
	case 0:
	default:
		return fmt.Errorf("its mode is %s, want a file, a directory or a symbolic link", e.Mode)
	}
	var at int64
	for _, c := range e.Chunks {
		inPack := c.At >= 0 && c.Length > 0 && c.Length <= MaxPack && c.At <= MaxPack-c.Length
		if c.Offset != at || !inPack || !sumPattern.MatchString(c.SHA256) || !sumPattern.MatchString(c.Pack) {
			return fmt.Errorf("chunk %+v is not valid", c)
		}
		at += c.Length
	}
	if at != e.Size {
		return fmt.Errorf("its chunks have %d bytes, want %d", at, e.Size)
	}
	return nil
}

// readManifest reads and checks the manifest of a snapshot.
func (m *Mover) readManifest(ctx context.Context, snapshot string) (*manifest, error) {
	text, err := m.get(ctx, manifestKey(snapshot))
	if err != nil {
		return nil, err
	}
	var read manifest
	if err := unseal(text, &read); err != nil {
		return nil, fmt.Errorf("the manifest of %s is damaged: %w", snapshot, err)
	}
	if err := read.check(); err != nil {
		return nil, fmt.Errorf("the manifest of %s is damaged: %w", snapshot, err)
	}
	return &read, nil
}
