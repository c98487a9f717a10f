package sealed

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"filippo.io/age"

	"github.com/cleat-dev/cleat/framework"
)

const (
	// intro begins each object.
	intro = "age-encryption.org/v1\n"
	// labelType is the type of the stanza with the name of the object.
	labelType = "cleat.dev/object"
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
	return []*age.Stanza{{Type: labelType, Args: texts(l.recipients), Body: []byte(l.name)}}, nil
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
	switch {
	case from.err != nil:
		return nil, from.err
	case !strings.HasPrefix(intro, string(from.first)) || len(from.first) == 0:
		return nil, notSealed(len(from.first))
	case errors.Is(err, age.ErrIncorrectIdentity), isNoMatch(err):
		return nil, keys.noMatch()
	case err != nil:
		return nil, framework.Invalid("it was changed or cut after it was sealed: %s", clip(err.Error()))
	}
	from.left = -1
	switch found, ok := keys.name(); {
	case !ok:
		return nil, framework.Invalid("it was not sealed by this store: its header does not say for which object")
	case found != name:
		return nil, framework.Invalid("it was sealed as %q, and renamed or swapped since", clip(found))
	}
	return &content{plain: plain, from: from}, nil
}

func isNoMatch(err error) bool {
	_, ok := errors.AsType[*age.NoIdentityMatchError](err)
	return ok
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
	left  int    // of the greatest header; negative after it
	first []byte // as many bytes as intro has
	err   error  // other than io.EOF
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
	s.first = append(s.first, p[:min(n, len(intro)-len(s.first))]...)
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
	plain io.Reader
	from  *source
}

// Read implements io.Reader.
func (c *content) Read(p []byte) (int, error) {
	n, err := c.plain.Read(p)
	switch {
	case err == nil, err == io.EOF:
		return n, err
	case c.from.err != nil:
		return n, c.from.err
	}
	return n, framework.Invalid("it was changed or cut after it was sealed: %s", clip(err.Error()))
}

// keyRing is all identities for one object. It sees the header before that is authenticated.
type keyRing struct {
	identities []identity
	labels     []*age.Stanza
}

// Unwrap implements age.Identity.
func (k *keyRing) Unwrap(stanzas []*age.Stanza) ([]byte, error) {
	for _, stanza := range stanzas {
		if stanza.Type == labelType {
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
