package item

import (
	"bytes"
	"strconv"
)

// List is one page of a list as the API server answers it, its objects left as they are.
type List struct {
	APIVersion      string // e.g. "v1"
	Kind            string // e.g. "PodList"
	ResourceVersion string
	Continue        string // token of the next page; "" on the last
	Remaining       int64  // objects on the pages after this one; 0 when the server does not say
	// Items are the objects. They belong to the scanned text. In lists of built-in types they lack
	// apiVersion and kind: see WithType.
	Items [][]byte
}

// SplitList reads one page of a list. It walks over the text once and checks its syntax; items that
// are not objects are an error.
func SplitList(raw []byte) (List, error) {
	var l List
	s := &scanner{data: raw}
	err := s.object(1, func(key []byte) error {
		switch string(key) {
		case "apiVersion":
			return s.set(&l.APIVersion, "apiVersion")
		case "kind":
			return s.set(&l.Kind, "kind")
		case "metadata":
			if isNull, err := s.null(); isNull || err != nil {
				return err
			}
			return s.object(2, func(key []byte) error { return s.listMetadata(&l, key) })
		case "items":
			return s.items(&l)
		}
		return s.skip(2)
	})
	if err == nil {
		err = s.end()
	}
	if err != nil {
		return List{}, err
	}
	return l, nil
}

func (s *scanner) listMetadata(l *List, key []byte) error {
	switch string(key) {
	case "resourceVersion":
		return s.set(&l.ResourceVersion, "metadata.resourceVersion")
	case "continue":
		return s.set(&l.Continue, "metadata.continue")
	case "remainingItemCount":
		number, err := s.raw(3)
		if err != nil {
			return err
		}
		// An estimate for progress only: what cannot be read counts as not told.
		if n, err := strconv.ParseInt(string(number), 10, 64); err == nil && n > 0 {
			l.Remaining = n
		}
		return nil
	}
	return s.skip(3)
}

func (s *scanner) items(l *List) error {
	l.Items = nil
	if isNull, err := s.null(); isNull || err != nil {
		return err
	}
	return s.array(2, func() error {
		if s.peek() != '{' {
			return s.errorf("expected an object in the items of a list")
		}
		raw, err := s.raw(3)
		l.Items = append(l.Items, raw)
		return err
	})
}

// WithType appends an object to buf, with apiVersion and kind put in front, as it is outside of a list.
// The object must be a JSON object that has neither, such as an item of SplitList with an empty
// Meta.Kind and Meta.APIVersion.
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
