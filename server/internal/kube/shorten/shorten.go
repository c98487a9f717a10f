// Package shorten limits texts that come from elsewhere before they are stored or shown. It imports nothing of ours.
package shorten

import "strings"

// Text returns text if it has at most limit bytes, else its first limit bytes and "...". It splits no character.
func Text(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "..."
}
