package sealed

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"filippo.io/age"

	"github.com/cleat-dev/cleat/framework"
	objectstorev1 "github.com/cleat-dev/cleat/framework/objectstore/v1"
)

const (
	// intro begins each object.
	intro = "age-encryption.org/v1\n"
	// stanzaType is that of the stanza with the name of the object.
	stanzaType = "cleat.dev/object"
	// maxHeader is the greatest size of a header. One of this package with 32 recipients is smaller, if each has the 2000
	// bytes that resist quantum computers.
	maxHeader = 256 << 10
)

// seal returns the sealed content of an object. An error of plain is the error of the returned reader.
func seal(plain io.Reader, name string, recipients []recipient) (io.Reader, error) {
	of := label{name: name, recipients: recipients}
	to := make([]age.Recipient, 0, 1+len(recipients))
	for _, r := range recipients {
		to = append(to, r.Recipient)
	}
	return age.EncryptReader(plain, append(to, of)...)
}

// label is the "recipient" that adds the name of an object to its header.
type label struct {
	name       string
	recipients []recipient
}

// Wrap implements age.Recipient.
func (l label) Wrap([]byte) ([]*age.Stanza, error) {
	return []*age.Stanza{{Type: stanzaType, Args: texts(l.recipients), Body: []byte(l.name)}}, nil
}

// WrapWithLabels implements age.RecipientWithLabels. age takes recipients together only if they have the same labels.
func (l label) WrapWithLabels(fileKey []byte) (stanzas []*age.Stanza, labels []string, err error) {
	if labelled, ok := l.recipients[0].Recipient.(age.RecipientWithLabels); ok {
		if _, labels, err = labelled.WrapWithLabels(fileKey); err != nil {
			return nil, nil, err
		}
	}
	stanzas, err = l.Wrap(fileKey)
	return stanzas, labels, err
}

// unseal returns the content of a sealed object of that name. No byte of it is returned that was not authenticated. It
// does not say yet whether the object is complete: that is the end of the returned reader.
func unseal(sealed io.Reader, name string, identities []identity) (io.Reader, error) {
	from := &source{Reader: sealed, left: maxHeader}
	keys := &keyRing{identities: identities}
	plain, err := age.Decrypt(from, keys)
	if err := keys.opened(err, &from.reading, name); err != nil {
		return nil, err
	}
	from.left = -1
	return &content{Reader: plain, of: &from.reading}, nil
}

// unsealRange is unseal for a range of an object of a size.
func unsealRange(
	sealed *window, size int64, name string, identities []identity, part objectstorev1.Range,
) (plain io.Reader, of *objectstorev1.Part, err error) {
	keys := &keyRing{identities: identities}
	all, plainSize, err := age.DecryptReaderAt(sealed, size, keys)
	if err := keys.opened(err, &sealed.reading, name); err != nil {
		return nil, nil, err
	}
	offset, length := part.In(plainSize)
	return &content{Reader: io.NewSectionReader(all, offset, length), of: &sealed.reading},
		&objectstorev1.Part{Offset: offset, Size: plainSize}, nil
}

// reading is what was read of a sealed object.
type reading struct {
	first []byte // as many bytes as intro has
	err   error  // of the store behind
}

// begins notes the first bytes of an object, which come in any pieces.
func (r *reading) begins(content []byte) {
	r.first = append(r.first, content[:min(len(content), len(intro)-len(r.first))]...)
}

// opened returns an error unless an object was opened that has a name. err is that of age.
func (k *keyRing) opened(err error, of *reading, name string) error {
	_, noMatch := errors.AsType[*age.NoIdentityMatchError](err)
	switch {
	case of.err != nil:
		return of.err
	case len(of.first) == 0, !strings.HasPrefix(intro, string(of.first)):
		return notSealed(len(of.first))
	case noMatch:
		return k.noMatch()
	case err != nil:
		return damaged(err)
	}
	switch found, ok := k.name(); {
	case !ok:
		return framework.Invalid("it was not sealed by this store: its header does not say for which object")
	case found != name:
		return framework.Invalid("it was sealed as %q, and renamed or swapped since", clip(found))
	}
	return nil
}

func damaged(err error) error {
	return framework.Invalid("it was changed or cut after it was sealed: %s", clip(err.Error()))
}

func notSealed(size int) error {
	if size == 0 {
		return framework.Invalid("it is empty, want a sealed object")
	}
	return framework.Invalid("it is not sealed; either it was stored past this store, or the location was not sealed " +
		"then: give old backups a location of their own, with the store behind as provider")
}

// source reads a sealed object, and tells the errors of reading from those of its content.
type source struct {
	io.Reader
	reading
	left int // of the greatest header; negative after it
}

// Read implements io.Reader.
func (s *source) Read(p []byte) (int, error) {
	if s.left == 0 {
		return 0, errors.New("its header is too long")
	}
	if s.left > 0 && len(p) > s.left {
		p = p[:s.left]
	}
	n, err := s.Reader.Read(p)
	s.begins(p[:n])
	if s.left > 0 {
		s.left -= n
	}
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

// content is the content of an object.
type content struct {
	io.Reader
	of *reading
}

// Read implements io.Reader.
func (c *content) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	switch {
	case err == nil, err == io.EOF:
		return n, err
	case c.of.err != nil:
		return n, c.of.err
	}
	return n, damaged(err)
}

// keyRing is all identities for one object. It sees the header before that is authenticated.
type keyRing struct {
	identities []identity
	labels     []*age.Stanza
}

// Unwrap implements age.Identity.
func (k *keyRing) Unwrap(stanzas []*age.Stanza) ([]byte, error) {
	for _, stanza := range stanzas {
		if stanza.Type == stanzaType {
			k.labels = append(k.labels, stanza)
		}
	}
	for _, one := range k.identities {
		fileKey, err := one.Unwrap(stanzas)
		if !errors.Is(err, age.ErrIncorrectIdentity) {
			return fileKey, err
		}
	}
	return nil, age.ErrIncorrectIdentity
}

// name returns the name in the header, if there is exactly one.
func (k *keyRing) name() (string, bool) {
	if len(k.labels) != 1 {
		return "", false
	}
	return string(k.labels[0].Body), true
}

// noMatch returns the error for an object that no identity opens.
func (k *keyRing) noMatch() error {
	var wanted []string
	for _, of := range k.labels {
		wanted = append(wanted, of.Args...)
	}
	have := make([]string, 0, len(k.identities))
	for _, one := range k.identities {
		have = append(have, one.recipient)
	}
	if len(wanted) == 0 {
		return framework.Invalid("no identity opens it; there are those of %s", strings.Join(have, ", "))
	}
	for i := range wanted {
		wanted[i] = clip(wanted[i])
	}
	wanted = wanted[:min(len(wanted), maxKeys)]
	if slices.ContainsFunc(wanted, func(one string) bool { return slices.Contains(have, one) }) {
		return framework.Invalid("its header was changed: it names %s, whose identity does not open it",
			strings.Join(wanted, ", "))
	}
	return framework.Invalid("no identity opens it: it is sealed for %s, and there are the identities of %s; add the "+
		"identity of one of the former to the Secret of the location", strings.Join(wanted, ", "), strings.Join(have, ", "))
}

// checkKeys returns an error unless the identities open what is sealed for the recipients: the server reads what it has
// stored.
func checkKeys(recipients []recipient, identities []identity) error {
	const name = "check"
	sealed, err := seal(strings.NewReader(name), name, recipients)
	if err != nil {
		return framework.InvalidKey("recipients", err)
	}
	plain, err := unseal(sealed, name, identities)
	if err == nil {
		_, err = io.Copy(io.Discard, plain)
	}
	if err != nil {
		return fmt.Errorf("the identities would not open a new object: %w", err)
	}
	return nil
}
