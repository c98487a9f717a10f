package conformance

import (
	"context"
	"fmt"
	"slices"
)

// Severity says what becomes of a plugin that breaks a rule.
type Severity string

const (
	// Must is a rule that a host relies on. A plugin that breaks it is refused, loses data, or stops an operation.
	Must Severity = "must"
	// Should is a rule whose breach a host survives and people notice. It is reported as a warning.
	Should Severity = "should"
)

// Process is what stands for a kind where a rule is about the process as a whole.
const Process = "Process"

// AnyKind is what stands for all kinds where a rule is about every plugin.
const AnyKind = "any"

// Rule is one promise of a plugin that can be checked from outside.
type Rule struct {
	// ID names the rule; it stays the same from release to release.
	ID string `json:"id"`
	// Kinds are those that the rule is for, as words of the wire ("BackupItemActionV2"), AnyKind or Process.
	Kinds []string `json:"kinds"`
	// Severity says how much it matters.
	Severity Severity `json:"severity"`
	// Text is the rule in words.
	Text string `json:"text"`

	check func(context.Context, *subject) error
	last  bool // checked after the rules of all plugins
}

// appliesTo says whether the rule is one for a kind.
func (r Rule) appliesTo(kind string) bool {
	return slices.Contains(r.Kinds, kind) || kind != Process && slices.Contains(r.Kinds, AnyKind)
}

// Rules are all rules, in the order in which they are checked for one plugin.
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

// skipped is why a rule could not be checked.
type skipped struct{ reason string }

func (s *skipped) Error() string { return s.reason }

func skip(format string, args ...any) error { return &skipped{fmt.Sprintf(format, args...)} }
