package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Severity is how much a rule matters.
type Severity string

const (
	// Must marks a rule that hosts rely on. A plugin that breaks it is refused, loses data, or stalls backups.
	Must Severity = "must"
	// Should marks a rule that a host does not depend on, although users notice when it is broken. Breaking it is a warning.
	Should Severity = "should"
)

// Process stands in place of a kind for rules about the process as a whole.
const Process = "Process"

// AnyKind stands for all kinds in rules about every plugin.
const AnyKind = "any"

// Rule is one promise of a plugin that can be checked over its wire.
type Rule struct {
	// ID identifies the rule. It does not change between releases.
	ID string `json:"id"`
	// Kinds lists the kinds that the rule applies to, by their names on the wire ("BackupItemActionV2"), or AnyKind or Process.
	Kinds []string `json:"kinds"`
	// Severity is Must or Should.
	Severity Severity `json:"severity"`
	// Text states the rule.
	Text string `json:"text"`

	check func(context.Context, *subject) error
	last  bool // checked after the rules of all plugins
}

// appliesTo reports whether the rule applies to a kind.
func (r Rule) appliesTo(kind string) bool {
	return slices.Contains(r.Kinds, kind) || kind != Process && slices.Contains(r.Kinds, AnyKind)
}

// Rules returns all rules, in the order in which they are checked.
func Rules() []Rule {
	return slices.Concat(
		startRules(),
		announceRules(),
		actionRules(),
		operationRules(),
		storeRules(),
		snapshotterRules(),
		policyRules(),
		queueRules(),
		soothingRules(),
		manifestRules(),
		endRules(),
	)
}

// skipped is an error that says why a rule could not be checked.
type skipped struct{ reason string }

func (s *skipped) Error() string { return s.reason }

func skip(format string, args ...any) error { return &skipped{fmt.Sprintf(format, args...)} }

// skipUnsupported returns err as a reason to skip a rule if this operating system does not support what the rule needs.
func skipUnsupported(err error) error {
	if errors.Is(err, errors.ErrUnsupported) {
		return skip("this operating system does not support what the check needs")
	}
	return err
}
