package picture

import (
	"bytes"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// blank returns a white picture.
func blank(width, height int) *image.RGBA {
	page := image.NewRGBA(image.Rect(0, 0, width, height))
	draw.Draw(page, page.Rect, image.White, image.Point{}, draw.Src)
	return page
}

// table draws something like a table of words, whose second column begins at x. The darkness of each dot is between
// least and 255.
func table(x, least int, ink color.RGBA) *image.RGBA {
	letters, smooth := rand.New(rand.NewPCG(1, 2)), rand.New(rand.NewPCG(3, uint64(least)))
	page := blank(600, 400)
	for row := range 10 {
		for _, left := range []int{40, x} {
			for dot := range 70 * 12 {
				if letters.IntN(3) > 0 {
					continue
				}
				dark := least + smooth.IntN(256-least)
				level := func(v uint8) uint8 { return uint8(255 - (255-int(v))*dark/255) }
				page.SetRGBA(left+dot%70, 40+36*row+dot/70, color.RGBA{level(ink.R), level(ink.G), level(ink.B), 255})
			}
		}
	}
	return page
}

func TestCompare(t *testing.T) {
	t.Parallel()
	black := color.RGBA{A: 255}
	want := Reduce(table(300, 200, black))
	for name, tt := range map[string]struct {
		got     image.Image
		differs bool
	}{
		"the same":             {table(300, 200, black), false},
		"other edges":          {table(300, 150, black), false},
		"a moved column":       {table(312, 200, black), true},
		"moved a little":       {table(306, 200, black), true},
		"a lost column":        {table(40, 200, black), true},
		"another color":        {table(300, 200, color.RGBA{R: 200, A: 255}), true},
		"another size":         {blank(600, 399), true},
		"everything is hidden": {blank(600, 400), true},
	} {
		share, where := Compare(want, Reduce(tt.got))
		require.Equal(t, tt.differs, share > MostShare, "%s: %f", name, share)
		require.Equal(t, tt.got.Bounds(), where.Bounds())
	}
}

func TestReduce(t *testing.T) {
	t.Parallel()
	colors := blank(100, 100)
	for i := range colors.Pix {
		colors.Pix[i] = uint8(i * i % 251)
	}
	require.LessOrEqual(t, len(Reduce(colors).Palette), 256)
	share, _ := Compare(Reduce(table(300, 150, color.RGBA{B: 150, A: 255})), table(300, 150, color.RGBA{B: 150, A: 255}))
	require.Zero(t, share)
}

func TestMoved(t *testing.T) {
	t.Parallel()
	const want = "h1 \"Queue\" 20 90 1160 40\ntable \"Backups\" 20 150 1160 300\nth \"PHASE\" 400 160 120 30\n"
	for name, tt := range map[string]struct {
		got   string
		found []string
	}{
		"the same": {want, nil},
		"rounded":  {"h1 \"Queue\" 20 91 1158 40\ntable \"Backups\" 20 152 1160 303\nth \"PHASE\" 403 161 121 31\n", nil},
		"a moved column": {"h1 \"Queue\" 20 90 1160 40\ntable \"Backups\" 20 150 1160 300\nth \"PHASE\" 412 160 120 30\n",
			[]string{"was: th \"PHASE\" 400 160 120 30\nnow: th \"PHASE\" 412 160 120 30"}},
		"a renamed part": {"h1 \"Line\" 20 90 1160 40\ntable \"Backups\" 20 150 1160 300\nth \"PHASE\" 400 160 120 30\n",
			[]string{"was: h1 \"Queue\" 20 90 1160 40\nnow: h1 \"Line\" 20 90 1160 40"}},
		"a lost part": {"h1 \"Queue\" 20 90 1160 40\ntable \"Backups\" 20 150 1160 300\n",
			[]string{"gone: th \"PHASE\" 400 160 120 30"}},
		"a new part": {want + "ul 20 500 100 50\n", []string{"new: ul 20 500 100 50"}},
	} {
		require.Equal(t, tt.found, Moved(want, tt.got), name)
	}
}

// TestGolden writes golden files, and reads them.
func TestGolden(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "desk", "queue.png")
	var shot bytes.Buffer
	require.NoError(t, png.Encode(&shot, table(300, 200, color.RGBA{A: 255})))
	Golden{Update: true}.Picture(t, path, shot.Bytes())
	Golden{}.Picture(t, path, shot.Bytes())
	file, err := os.Stat(path)
	require.NoError(t, err)
	require.Less(t, file.Size(), int64(shot.Len()))

	path = filepath.Join(dir, "desk", "queue.txt")
	Golden{Update: true}.Layout(t, path, "h1 20 90 1160 40\n")
	Golden{}.Layout(t, path, "h1 20 91 1160 40\n")
}
