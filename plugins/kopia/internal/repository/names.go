package repository

import (
	"strings"
	"unicode/utf8"
)

// Names of files in the directories of a snapshot are JSON, in which kopia replaces every byte that is not UTF-8 by the
// same character, so that files replace one another. Such a byte is therefore stored as a character of its own, of the
// private use area: 0x80 as U+EF80, up to 0xFF as U+EFFF. A name that has one of these characters itself is stored as its
// bytes. Snapshots whose names are stored so have the tag NamesTag, so that those of other programs are read as they are.

// NamesTag of a snapshot is EscapedNames if names that are not UTF-8 are stored by StoredName.
const NamesTag = "cleat-names"

// EscapedNames is the value of NamesTag.
const EscapedNames = "escaped"

// escape plus a byte of at least 0x80 is the character for it.
const escape = 0xEF00

// isEscape reports whether a character stands for a byte.
func isEscape(r rune) bool { return r >= escape+utf8.RuneSelf && r <= escape+0xFF }

// StoredName returns the name that a file has in a snapshot. Different files have different names.
func StoredName(name string) string {
	if utf8.ValidString(name) && strings.IndexFunc(name, isEscape) < 0 {
		return name
	}
	var stored strings.Builder
	for len(name) > 0 {
		r, size := utf8.DecodeRuneInString(name)
		if r == utf8.RuneError && size == 1 || isEscape(r) {
			for _, b := range []byte(name[:size]) {
				stored.WriteRune(escape + rune(b))
			}
		} else {
			stored.WriteString(name[:size])
		}
		name = name[size:]
	}
	return stored.String()
}

// FileName returns the name of a file whose name in a snapshot is stored, the inverse of StoredName.
func FileName(stored string) string {
	if strings.IndexFunc(stored, isEscape) < 0 {
		return stored
	}
	name := make([]byte, 0, len(stored))
	for _, r := range stored {
		if isEscape(r) {
			name = append(name, byte(r-escape))
		} else {
			name = utf8.AppendRune(name, r)
		}
	}
	return string(name)
}
