// Package picture compares what pages look like with what they looked like: pictures of the window, and layouts, which
// are the boxes of the parts of a page as text. Both may differ by what another machine renders differently, and no
// further. Pictures show colors and overlaps; a layout says in words which part has moved, and takes few bytes.
//
// Start reading at golden.go.
package picture
