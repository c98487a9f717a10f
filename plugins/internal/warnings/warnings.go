// Package warnings collects the warnings of one call of a data mover, as lines for people without the password.
//
// The package imports nothing of the project.
package warnings

import (
	"fmt"
	"strings"
	"sync"
)

const (
	// maxWarnings is how many warnings a result has, the last of which counts those that are left out.
	maxWarnings = 50
	// maxText is the maximum size in bytes of a warning or an activity.
	maxText = 1000
)

// List holds the warnings of a call. It is safe for concurrent use.
type List struct {
	password string

	mu       sync.Mutex
	warnings []string
	dropped  int // warnings that are left out
}

// New returns a list for a repository with a password, which no text has.
func New(password []byte) *List { return &List{password: string(password)} }

// Warn adds a warning to the result of the call.
func (l *List) Warn(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.warnings) == maxWarnings-1 {
		l.dropped++
		return
	}
	l.warnings = append(l.warnings, l.Clean(fmt.Sprintf(format, args...)))
}

// Warned returns the warnings of the call.
func (l *List) Warned() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dropped > 0 {
		return append(l.warnings, fmt.Sprintf("and %d more", l.dropped))
	}
	return l.warnings
}

// Clean makes one short line of text for people, without the password.
func (l *List) Clean(text string) string {
	if len(l.password) > 3 {
		text = strings.ReplaceAll(text, l.password, "***")
	}
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "..."
	}
	return strings.TrimSpace(text)
}
