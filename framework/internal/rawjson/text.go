package rawjson

import (
	"math/bits"
	"unicode/utf8"
)

// AppendText appends text as a JSON string, as encoding/json does with its escapes for HTML switched off.
func AppendText(to []byte, text string) []byte {
	to = append(to, '"')
	for {
		plain := plainPrefix(text)
		to = append(to, text[:plain]...)
		if text = text[plain:]; text == "" {
			return append(to, '"')
		}
		size := 1
		switch c := text[0]; {
		case c == '"' || c == '\\':
			to = append(to, '\\', c)
		case c == '\n':
			to = append(to, '\\', 'n')
		case c == '\t':
			to = append(to, '\\', 't')
		case c == '\r':
			to = append(to, '\\', 'r')
		case c == '\b':
			to = append(to, '\\', 'b')
		case c == '\f':
			to = append(to, '\\', 'f')
		case c < ' ':
			const hex = "0123456789abcdef"
			to = append(to, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			to, size = appendRune(to, text)
		}
		text = text[size:]
	}
}

// appendRune appends the first character of text, which is not ASCII, and returns its size. It escapes the two line
// separators, as encoding/json does for JavaScript.
func appendRune(to []byte, text string) ([]byte, int) {
	r, size := utf8.DecodeRuneInString(text)
	switch {
	case r == utf8.RuneError && size == 1:
		return append(to, `\ufffd`...), size
	case r == '\u2028':
		return append(to, `\u2028`...), size
	case r == '\u2029':
		return append(to, `\u2029`...), size
	default:
		return append(to, text[:size]...), size
	}
}

// eightOf returns the first eight bytes of text.
func eightOf(text string) uint64 {
	_ = text[7]
	return uint64(text[0]) | uint64(text[1])<<8 | uint64(text[2])<<16 | uint64(text[3])<<24 |
		uint64(text[4])<<32 | uint64(text[5])<<40 | uint64(text[6])<<48 | uint64(text[7])<<56
}

// plainPrefix returns the length of the prefix of text that is ASCII and needs no escapes in JSON.
func plainPrefix(text string) int {
	const highs = 0x8080808080808080
	at := 0
	for ; at+8 <= len(text); at += 8 {
		eight := eightOf(text[at:])
		if special := specials(eight) | eight&highs; special != 0 {
			return at + bits.TrailingZeros64(special)/8
		}
	}
	for at < len(text) && text[at] >= ' ' && text[at] < utf8.RuneSelf && text[at] != '"' && text[at] != '\\' {
		at++
	}
	return at
}

// specials marks the quotes, backslashes and control characters among eight bytes of a string, in the highest bit of
// each byte. The lowest mark is exact; the marks above it may be wrong.
func specials(eight uint64) uint64 {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	quote, backslash := eight^ones*'"', eight^ones*'\\'
	return ((quote-ones)&^quote | (backslash-ones)&^backslash | (eight-ones*' ')&^eight) & highs
}
