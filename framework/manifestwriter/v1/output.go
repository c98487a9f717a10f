package v1

import (
	"fmt"
	"io"

	manifestwriterv1 "github.com/cleat-dev/cleat/proto/cleat/manifestwriter/v1"
)

// pieceSize is how many bytes of an artifact go into one message: all but the last have as many.
const pieceSize = 64 << 10

// output sends artifacts as they are written.
type output struct {
	send    func(*manifestwriterv1.WriteResponse) error
	current *artifact // nil before the first
}

// Create implements Output.
func (o *output) Create(name string) (io.Writer, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	if err := o.send(&manifestwriterv1.WriteResponse{
		Part: &manifestwriterv1.WriteResponse_Artifact{Artifact: &manifestwriterv1.Artifact{Name: name}},
	}); err != nil {
		return nil, fmt.Errorf("begin artifact %s: %w", name, err)
	}
	o.current = &artifact{name: name, send: o.send}
	return o.current, nil
}

// complete sends the rest of the last artifact, which then accepts no more content.
func (o *output) complete() error {
	if o.current == nil {
		return nil
	}
	last := o.current
	o.current, last.complete = nil, true
	if len(last.rest) == 0 {
		return nil
	}
	return last.sendPiece(last.rest)
}

// artifact buffers content until it fills a message.
type artifact struct {
	name     string
	send     func(*manifestwriterv1.WriteResponse) error
	rest     []byte // not sent yet, less than a piece
	complete bool
}

// Write implements io.Writer.
func (a *artifact) Write(content []byte) (written int, err error) {
	if a.complete {
		return 0, fmt.Errorf("artifact %s is complete and takes no more", a.name)
	}
	for len(a.rest)+len(content) >= pieceSize {
		room := pieceSize - len(a.rest)
		if err := a.sendPiece(append(a.rest, content[:room]...)); err != nil {
			return written, err
		}
		a.rest, content = nil, content[room:] // a transport may keep its input
		written += room
	}
	a.rest = append(a.rest, content...)
	return written + len(content), nil
}

func (a *artifact) sendPiece(piece []byte) error {
	if err := a.send(&manifestwriterv1.WriteResponse{Part: &manifestwriterv1.WriteResponse_Content{
		Content: piece,
	}}); err != nil {
		return fmt.Errorf("artifact %s: %w", a.name, err)
	}
	return nil
}
