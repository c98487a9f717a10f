package manifestwriter

import (
	"errors"
	"fmt"
	"io"

	manifestwriterv1 "github.com/cleat-dev/cleat/proto/cleat/manifestwriter/v1"
)

// brokenRule is the error of a reply that breaks the contract.
type brokenRule struct{ error }

func (b *brokenRule) Unwrap() error { return b.error }

// artifacts reads the artifacts of one reply, which arrive in messages.
type artifacts struct {
	receive func() (*manifestwriterv1.WriteResponse, error)
	seen    names
	next    *manifestwriterv1.Artifact // has begun and is not kept yet
	err     error                      // how the messages ended; io.EOF on success
}

// each calls keep for each artifact. It returns nil if the reply ended without an error.
func (a *artifacts) each(keep Keep) error {
	if len(a.piece()) > 0 {
		return &brokenRule{errors.New("there is content before the first artifact")}
	}
	for a.next != nil {
		name := a.next.GetName()
		a.next = nil
		if err := a.seen.take(name); err != nil {
			return &brokenRule{err}
		}
		if err := keep(name, &content{of: a}); err != nil {
			if a.err != nil && a.err != io.EOF {
				return a.err // the cause of keep's error
			}
			return fmt.Errorf("keep artifact %s: %w", name, err)
		}
		for a.piece() != nil { // what keep has not read
		}
	}
	if a.err != io.EOF {
		return a.err
	}
	return nil
}

// piece returns the next content of the current artifact. It returns nil at its end: when the next one has begun or the
// messages have ended. Messages of unknown types and empty content are skipped.
func (a *artifacts) piece() []byte {
	for a.next == nil && a.err == nil {
		var message *manifestwriterv1.WriteResponse
		if message, a.err = a.receive(); a.err != nil {
			break
		}
		if piece := message.GetContent(); len(piece) > 0 {
			return piece
		}
		a.next = message.GetArtifact()
	}
	return nil
}

// content reads one artifact.
type content struct {
	of   *artifacts
	rest []byte // of the message received last
}

// Read implements io.Reader.
func (c *content) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if len(c.rest) == 0 {
		c.rest = c.of.piece()
	}
	if len(c.rest) == 0 {
		if c.of.next != nil {
			return 0, io.EOF
		}
		return 0, c.of.err
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}
