package picture

import (
	"bytes"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Golden compares with committed files. A difference fails the test, which goes on.
type Golden struct {
	Update  bool   // writes the files instead
	Differs string // the directory for what differs
	Accept  string // the command that accepts it
}

// Layout compares a layout with the one in a file.
func (g Golden) Layout(t *testing.T, path, layout string) {
	t.Helper()
	if g.Update {
		write(t, path, []byte(layout))
		return
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "accept a new page with: %s", g.Accept)
	if found := Moved(string(want), layout); len(found) > 0 {
		fresh := g.fresh(t, path)
		write(t, fresh, []byte(layout))
		t.Errorf("the page looks different:\n%s\nIt is now %s, and was %s. If this is meant, accept it with: %s",
			strings.Join(found, "\n"), fresh, path, g.Accept)
	}
}

// Picture compares a picture, a PNG of the window, with the one in a file.
func (g Golden) Picture(t *testing.T, path string, shot []byte) {
	t.Helper()
	decoded, err := png.Decode(bytes.NewReader(shot))
	require.NoError(t, err)
	got := Reduce(decoded)
	if g.Update {
		write(t, path, encode(t, got))
		return
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err, "accept a new picture with: %s", g.Accept)
	want, err := png.Decode(bytes.NewReader(text))
	require.NoError(t, err, path)
	if share, where := Compare(want, got); share > MostShare {
		fresh := g.fresh(t, path)
		write(t, fresh, encode(t, got))
		marked := strings.TrimSuffix(fresh, ".png") + "-difference.png"
		write(t, marked, encode(t, where))
		t.Errorf("the page looks different: %.2f %% of %s, which is now %s; %s shows where. If this is meant, accept it "+
			"with: %s", 100*share, path, fresh, marked, g.Accept)
	}
}

// fresh returns the path of what a file should be now.
func (g Golden) fresh(t *testing.T, path string) string {
	t.Helper()
	dir, err := filepath.Abs(g.Differs)
	require.NoError(t, err)
	return filepath.Join(dir, filepath.Base(filepath.Dir(path)), filepath.Base(path))
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, content, 0o600))
}

func encode(t *testing.T, picture image.Image) []byte {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, picture))
	return out.Bytes()
}
