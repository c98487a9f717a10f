package foreign

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/go-json-experiment/json/jsontext"
	kjson "sigs.k8s.io/json"

	"github.com/cleat-dev/cleat/server/internal/kube/shorten"
)

// Unmarshal decodes a document that is in memory into a pointer. A document that is null is invalid.
func Unmarshal(document []byte, into any, limits Limits) error {
	if int64(len(document)) > limits.Bytes {
		return invalid("", "it is larger than the limit of %d bytes", limits.Bytes)
	}
	c := checker{limits: limits}
	if err := c.check(document, "", 0); err != nil {
		return err
	}
	return decode(document, into, "")
}

// Decode reads a document to the end of r and decodes it. A document that is null is invalid.
func Decode[T any](r io.Reader, limits Limits) (T, error) {
	var value T
	limits.Element = 0
	document, err := io.ReadAll(&limited{r: r, limits: limits})
	if err == nil {
		err = Unmarshal(document, &value, limits)
	}
	if err != nil {
		var none T
		return none, err
	}
	return value, nil
}

// List reads a list to the end of r and decodes its elements. It keeps one element in memory. The last pair may have an
// error instead of an element. A list that is null is empty, as Go encodes it.
func List[E any](r io.Reader, limits Limits) iter.Seq2[E, error] {
	return func(yield func(E, error) bool) {
		stopped := errors.New("stopped")
		err := each(&limited{r: r, limits: limits}, limits, func(raw []byte, at string) error {
			var element E
			if err := decode(raw, &element, at); err != nil {
				return err
			}
			if !yield(element, nil) {
				return stopped
			}
			return nil
		})
		if err != nil && !errors.Is(err, stopped) {
			var none E
			yield(none, err)
		}
	}
}

// each calls element for the valid elements of a list, with their JSON pointers.
func each(in *limited, limits Limits, element func(raw []byte, at string) error) error {
	d := jsontext.NewDecoder(in)
	begin, err := d.ReadToken()
	if err != nil {
		return in.explain(err)
	}
	c := checker{limits: limits}
	switch kind := begin.Kind(); kind {
	case 'n':
	case '[':
		for i := 0; d.PeekKind() != ']'; i++ {
			in.next()
			raw, err := d.ReadValue()
			if err != nil {
				return in.explain(err)
			}
			at := fmt.Sprintf("/%d", i)
			if i >= limits.Elements {
				return invalid(at, "the list has more than %d elements", limits.Elements)
			}
			if err := c.check(raw, at, 1); err != nil {
				return err
			}
			if err := element(raw, at); err != nil {
				return err
			}
		}
		if _, err := d.ReadToken(); err != nil {
			return in.explain(err)
		}
	default:
		return invalid("", "it is %s, want a list", kind)
	}
	in.next()
	switch _, err := d.ReadToken(); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return in.explain(err)
	default:
		return invalid("", "more follows after the list")
	}
}

// explain returns an error of a decoder, or the error of its reader if there is one.
func (l *limited) explain(err error) error {
	switch {
	case l.err != nil:
		return l.err
	case errors.Is(err, ErrInvalid): // a limit
		return err
	case errors.Is(err, io.EOF):
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("%w: %w", ErrInvalid, err)
}

// checker finds out whether values are valid; it counts them for the whole document.
type checker struct {
	limits Limits
	values int
}

// check returns an error unless raw is one valid value. depth is how deep it is in the document.
func (c *checker) check(raw []byte, at string, depth int) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(raw)) // which refuses members that are there twice
	for {
		token, err := d.ReadToken()
		if errors.Is(err, io.EOF) {
			return invalid(at, "it is empty, want JSON")
		}
		if err != nil {
			return invalid(at, "%w", err)
		}
		here := func() string { return at + shorten.Text(string(d.StackPointer()), 200) }
		level := d.StackDepth()
		parent, _ := d.StackIndex(level)
		switch c.values++; {
		case c.values > c.limits.Values:
			return invalid(here(), "there are more than %d values", c.limits.Values)
		case depth+level > c.limits.Depth:
			return invalid(here(), "it is more than %d levels deep", c.limits.Depth)
		case token.Kind() == 'n' && parent != '{':
			return invalid(here(), "it is null, want a value")
		case token.Kind() == '0':
			if err := CheckNumber([]byte(token.String())); err != nil {
				return invalid(here(), "%w", err)
			}
		}
		if level == 0 {
			return end(d, at)
		}
	}
}

// end returns an error if anything follows a value.
func end(d *jsontext.Decoder, at string) error {
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return invalid(at, "more follows after the value")
	}
	return nil
}

// decode decodes a valid value.
func decode(raw []byte, into any, at string) error {
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, into); err != nil {
		return invalid(at, "%w", err)
	}
	return nil
}
