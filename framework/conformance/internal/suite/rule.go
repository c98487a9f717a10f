package suite

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

const (
	// Process stands in place of a kind for rules about the process as a whole.
	Process = "Process"
	// AnyKind stands for all kinds in rules about every plugin.
	AnyKind = "any"
)

// StartRule is the ID of the rule that fails if the process does not start.
const StartRule = "process-handshake"

// Rule is one promise of a plugin that can be checked over its wire.
type Rule struct {
	ID     string
	Kinds  []string // names on the wire, AnyKind or Process
	Should bool     // breaking it is a warning
	Text   string
	Check  Check
	Alone  bool // checked after all others, while nothing else runs: it measures or ends a process
}

// Check returns what is wrong with a subject. An error of Skip says why the rule could not be checked.
type Check func(context.Context, *Subject) error

func (r Rule) appliesTo(kind string) bool {
	return slices.Contains(r.Kinds, kind) || kind != Process && slices.Contains(r.Kinds, AnyKind)
}

// skipped is an error that says why a rule could not be checked.
type skipped struct{ reason string }

func (s *skipped) Error() string { return s.reason }

// Skip returns an error that says why a rule could not be checked.
func Skip(format string, args ...any) error { return &skipped{fmt.Sprintf(format, args...)} }

// IsSkip reports whether err is one of Skip.
func IsSkip(err error) bool {
	var why *skipped
	return errors.As(err, &why)
}

// SkipUnsupported returns err as a reason to skip a rule if this operating system does not support what the rule needs.
func SkipUnsupported(err error) error {
	if errors.Is(err, errors.ErrUnsupported) {
		return Skip("this operating system does not support what the check needs")
	}
	return err
}
