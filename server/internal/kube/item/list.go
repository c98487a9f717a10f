package item

import (
	"bytes"
	"fmt"
	"strconv"
)

// List is one page of a list of the API server, with its objects as raw JSON.
type List struct {
	APIVersion      string // e.g. "v1"
	Kind            string // e.g. "PodList"
	ResourceVersion string
	Continue        string // token of the next page; "" on the last
	Remaining       int64  // objects on the pages after this one; 0 if the server does not report it
	// Items are the objects, as parts of the text that was read. In lists of built-in types they lack apiVersion and
	// kind: see WithType.
	Items [][]byte
}

// SplitList reads one page of a list and verifies its syntax. It returns an error if an item is not an object.
func SplitList(raw []byte) (List, error) {
	var l List
	err := decodeObject(raw, false, func(d decoder, name string) error {
		switch name {
		case "apiVersion":
			return d.text(&l.APIVersion, "apiVersion")
		case "kind":
			return d.text(&l.Kind, "kind")
		case "metadata":
			if isNull, err := d.null(); isNull || err != nil {
				return err
			}
			return d.object("metadata", func(name string) error { return l.decodeField(d, name) })
		case "items":
			return l.decodeItems(d, raw)
		}
		return d.skip()
	})
	if err != nil {
		return List{}, err
	}
	return l, nil
}

// decodeField reads one field of the list's metadata.
func (l *List) decodeField(d decoder, name string) error {
	switch name {
	case "resourceVersion":
		return d.text(&l.ResourceVersion, "metadata.resourceVersion")
	case "continue":
		return d.text(&l.Continue, "metadata.continue")
	case "remainingItemCount":
		number, err := d.ReadValue()
		if err != nil {
			return err
		}
		// This is an estimate for progress only: an invalid one is ignored.
		if n, err := strconv.ParseInt(string(number), 10, 64); err == nil && n > 0 {
			l.Remaining = n
		}
		return nil
	}
	return d.skip()
}

func (l *List) decodeItems(d decoder, raw []byte) error {
	l.Items = nil
	if isNull, err := d.null(); isNull || err != nil {
		return err
	}
	return d.array("items", func() error {
		kind := d.PeekKind()
		value, err := d.ReadValue()
		if err != nil {
			return err
		}
		if kind != '{' {
			return fmt.Errorf("items: want objects, got %s", kind)
		}
		end := int(d.InputOffset())
		l.Items = append(l.Items, raw[end-len(value):end:end])
		return nil
	})
}

// WithType appends an object to buf, preceded by apiVersion and kind, as the object is outside of a list. The object
// must be a JSON object that has neither, such as an item of SplitList with an empty Meta.Kind and Meta.APIVersion.
func WithType(buf, object []byte, apiVersion, kind string) []byte {
	buf = append(buf, `{"apiVersion":`...)
	buf = strconv.AppendQuote(buf, apiVersion)
	buf = append(buf, `,"kind":`...)
	buf = strconv.AppendQuote(buf, kind)
	rest := bytes.TrimLeft(object[1:], " \n\t\r")
	if rest[0] != '}' {
		buf = append(buf, ',')
	}
	return append(buf, rest...)
}
