package item

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/cleat-dev/cleat/server/internal/kube/foreign"
)

// decodeObject reads raw, which must be one JSON object, and calls member for each of its members. Unless isForeign is
// set, it accepts what encoding/json accepts.
func decodeObject(raw []byte, isForeign bool, member func(d decoder, name string) error) error {
	d := decoder{jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowDuplicateNames(!isForeign),
		jsontext.AllowInvalidUTF8(!isForeign)), isForeign}
	err := d.object("", func(name string) error { return member(d, name) })
	if err == nil {
		if _, err = d.ReadToken(); errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = errors.New("text follows the object")
		}
	}
	return fmt.Errorf("invalid JSON at byte %d: %w", d.InputOffset(), err)
}

// decoder reads JSON in the shapes that objects of Kubernetes have.
type decoder struct {
	*jsontext.Decoder

	isForeign bool
}

// skip reads a value that nobody needs.
func (d decoder) skip() error {
	if !d.isForeign {
		return d.SkipValue()
	}
	for depth := d.StackDepth(); ; {
		var err error
		switch d.PeekKind() {
		case '{', '[', '}', ']':
			_, err = d.ReadToken()
		case '0':
			var number jsontext.Value
			if number, err = d.ReadValue(); err == nil {
				err = foreign.CheckNumber(number)
			}
		default:
			err = d.SkipValue()
		}
		if err != nil || d.StackDepth() == depth {
			return err
		}
	}
}

// object reads an object, the value of field, and calls member for each name; member must read the value.
func (d decoder) object(field string, member func(name string) error) error {
	if err := d.begin(field, '{', "an object"); err != nil {
		return err
	}
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return err
		}
		if err := member(name.String()); err != nil {
			return err
		}
	}
	_, err := d.ReadToken()
	return err
}

// array reads an array, the value of field, and calls element for each element; element must read it.
func (d decoder) array(field string, element func() error) error {
	if err := d.begin(field, '[', "an array"); err != nil {
		return err
	}
	for d.PeekKind() != ']' {
		if err := element(); err != nil {
			return err
		}
	}
	_, err := d.ReadToken()
	return err
}

// begin reads the first token of an object or array.
func (d decoder) begin(field string, kind jsontext.Kind, want string) error {
	got := d.PeekKind()
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	switch {
	case got == kind:
		return nil
	case field == "":
		return fmt.Errorf("want %s, got %s", want, got)
	default:
		return fmt.Errorf("%s: want %s, got %s", field, want, got)
	}
}

// null reads a null if it is the next value, and reports whether it was.
func (d decoder) null() (bool, error) {
	if d.PeekKind() != 'n' {
		return false, nil
	}
	return true, d.skip()
}

// text reads a string, the value of field, into value; a null is the empty string.
func (d decoder) text(value *string, field string) error {
	got := d.PeekKind()
	token, err := d.ReadToken()
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", field, err)
	case got == '"':
		*value = token.String()
	case got == 'n':
		*value = ""
	default:
		return fmt.Errorf("%s: want a string, got %s", field, got)
	}
	return nil
}

// texts reads an object of strings, the value of field, into values; a null is the nil map.
func (d decoder) texts(values *map[string]string, field string) error {
	*values = nil
	if isNull, err := d.null(); isNull || err != nil {
		return err
	}
	return d.object(field, func(key string) error {
		if *values == nil {
			*values = map[string]string{}
		}
		var value string
		err := d.text(&value, field)
		(*values)[key] = value
		return err
	})
}
