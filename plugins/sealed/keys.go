package sealed

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"filippo.io/age"
)

// maxKeys is the greatest number of recipients, and of identities.
const maxKeys = 32

// recipient is a public key.
type recipient struct {
	age.Recipient
	text string
}

// parseRecipients parses public keys. An error never has a private one in it.
func parseRecipients(words []string) (all []recipient, err error) {
	for i, word := range words {
		r := recipient{text: word}
		switch {
		case strings.HasPrefix(strings.ToUpper(word), "AGE-SECRET-KEY-"):
			return nil, fmt.Errorf("number %d is a private key, which must not be in the config of a location: replace that "+
				"key, and want its public key (age1...), as age-keygen -y prints it", i+1)
		case strings.HasPrefix(word, "age1pq1"):
			r.Recipient, err = age.ParseHybridRecipient(word)
		default:
			r.Recipient, err = age.ParseX25519Recipient(word)
		}
		if err != nil {
			return nil, fmt.Errorf("number %d is %q, want a public key of age (age1...)", i+1, clip(word))
		}
		if !slices.ContainsFunc(all, func(other recipient) bool { return other.text == word }) {
			all = append(all, r)
		}
	}
	switch {
	case len(all) == 0:
		return nil, errors.New("there is none, want the public keys of age (age1...) for which objects are sealed")
	case len(all) > maxKeys:
		return nil, fmt.Errorf("there are %d, want %d at most", len(all), maxKeys)
	}
	return all, nil
}

// texts returns the recipients as the header of an object names them.
func texts(all []recipient) (names []string) {
	for _, r := range all {
		names = append(names, shortened(r.text))
	}
	return names
}

// shortened returns the beginning of a public key that tells it apart. Those that resist quantum computers have 2000
// characters.
func shortened(key string) string {
	const classic = 62
	if len(key) <= classic {
		return key
	}
	return key[:classic] + "..."
}

// identity is a private key.
type identity struct {
	age.Identity
	recipient string // its public key, as texts returns it
}

// readIdentities reads a file of private keys, one a line, with comments as age-keygen writes them. An error never has
// a part of the file in it.
func readIdentities(path string) ([]identity, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the identities: %w", err)
	}
	var all []identity
	lines := bufio.NewScanner(bytes.NewReader(content))
	for number := 1; lines.Scan(); number++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		one, ok := parseIdentity(line)
		if !ok {
			return nil, fmt.Errorf("read the identities: line %d is none, want AGE-SECRET-KEY-1..., as age-keygen prints it",
				number)
		}
		all = append(all, one)
	}
	switch {
	case lines.Err() != nil:
		return nil, errors.New("read the identities: a line is too long, want AGE-SECRET-KEY-1..., one a line")
	case len(all) == 0:
		return nil, errors.New("read the identities: there is none, want AGE-SECRET-KEY-1..., as age-keygen prints it")
	case len(all) > maxKeys:
		return nil, fmt.Errorf("read the identities: there are %d, want %d at most", len(all), maxKeys)
	}
	return all, nil
}

func parseIdentity(line string) (identity, bool) {
	if strings.HasPrefix(line, "AGE-SECRET-KEY-PQ-1") {
		key, err := age.ParseHybridIdentity(line)
		if err != nil {
			return identity{}, false
		}
		return identity{key, shortened(key.Recipient().String())}, true
	}
	key, err := age.ParseX25519Identity(line)
	if err != nil {
		return identity{}, false
	}
	return identity{key, key.Recipient().String()}, true
}

// clip returns a text of others for an error, in one line.
func clip(text string) string {
	const most = 80
	if len(text) > most {
		return text[:most] + "..."
	}
	return text
}
