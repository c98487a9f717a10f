package picture

import (
	"cmp"
	"image"
	"image/color"
	"image/draw"
	"slices"
)

const (
	// block is the edge of the squares whose mean colors are compared, in pixels. The edges of letters, which each
	// machine smooths in its way, hardly change the mean.
	block = 4
	// mostLevel is how far two means may be apart, of 255.
	mostLevel = 24
	// MostShare is the share of squares that may differ.
	MostShare = 0.002
	// step is the distance between the levels that a reduced picture has.
	step = 8
)

// pixels returns a picture with its pixels at hand.
func pixels(of image.Image) *image.RGBA {
	copied := image.NewRGBA(of.Bounds())
	draw.Draw(copied, copied.Rect, of, of.Bounds().Min, draw.Src)
	return copied
}

// Reduce returns a picture with the 256 most frequent colors of another one, which takes a fraction of the bytes.
func Reduce(from image.Image) *image.Paletted {
	all := pixels(from)
	counts := map[color.RGBA]int{}
	for i := 0; i < len(all.Pix); i += 4 {
		pixel := all.Pix[i : i+4]
		for channel := range 3 {
			pixel[channel] = uint8(min(255, (int(pixel[channel])+step/2)/step*step)) //nolint:gosec // it is 255 at most
		}
		counts[color.RGBA{pixel[0], pixel[1], pixel[2], 255}]++
	}
	frequent := make([]color.RGBA, 0, len(counts))
	for c := range counts {
		frequent = append(frequent, c)
	}
	slices.SortFunc(frequent, func(a, b color.RGBA) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a.R, b.R), cmp.Compare(a.G, b.G),
			cmp.Compare(a.B, b.B))
	})
	var palette color.Palette
	for _, c := range frequent[:min(256, len(frequent))] {
		palette = append(palette, c)
	}
	indexes := map[color.RGBA]uint8{}
	for _, c := range frequent {
		indexes[c] = uint8(palette.Index(c)) //nolint:gosec // there are 256 at most
	}
	to := image.NewPaletted(all.Rect, palette)
	for i := range to.Pix {
		to.Pix[i] = indexes[color.RGBA{all.Pix[4*i], all.Pix[4*i+1], all.Pix[4*i+2], 255}]
	}
	return to
}

// Compare returns the share of the squares in which two pictures differ, and a picture that shows them in red. Pictures
// of different sizes differ everywhere.
func Compare(want, got image.Image) (share float64, where image.Image) {
	before, after := pixels(want), pixels(got)
	if before.Rect != after.Rect {
		return 1, after
	}
	marked := pixels(got)
	squares, differ := 0, 0
	for y := after.Rect.Min.Y; y < after.Rect.Max.Y; y += block {
		for x := after.Rect.Min.X; x < after.Rect.Max.X; x += block {
			square := image.Rect(x, y, x+block, y+block).Intersect(after.Rect)
			squares++
			if apart(mean(before, square), mean(after, square)) > mostLevel {
				differ++
				draw.Draw(marked, square, image.NewUniform(color.RGBA{R: 255, A: 255}), image.Point{}, draw.Src)
			}
		}
	}
	return float64(differ) / float64(squares), marked
}

// mean returns the mean color of a part of a picture.
func mean(of *image.RGBA, part image.Rectangle) (mean [3]int) {
	for y := part.Min.Y; y < part.Max.Y; y++ {
		for x := part.Min.X; x < part.Max.X; x++ {
			at := of.PixOffset(x, y)
			for channel := range mean {
				mean[channel] += int(of.Pix[at+channel])
			}
		}
	}
	for channel := range mean {
		mean[channel] /= part.Dx() * part.Dy()
	}
	return mean
}

// apart returns how far two colors are apart at most.
func apart(a, b [3]int) (most int) {
	for i := range a {
		most = max(most, a[i]-b[i], b[i]-a[i])
	}
	return most
}
