package conformance

import (
	"github.com/cleat-dev/cleat/framework/conformance/internal/rules"
	"github.com/cleat-dev/cleat/framework/conformance/internal/suite"
)

// Severity is how much a rule matters.
type Severity string

const (
	// Must marks a rule that hosts rely on. A plugin that breaks it is refused, loses data, or stalls backups.
	Must Severity = "must"
	// Should marks a rule that a host does not depend on, although users notice when it is broken. Breaking it is a
	// warning.
	Should Severity = "should"
)

// Process stands in place of a kind for rules about the process as a whole.
const Process = suite.Process

// AnyKind stands for all kinds in rules about every plugin.
const AnyKind = suite.AnyKind

// Rule is one promise of a plugin that can be checked over its wire.
type Rule struct {
	// ID identifies the rule. It does not change between releases.
	ID string `json:"id"`
	// Kinds lists the kinds that the rule applies to, by their names on the wire ("BackupItemActionV2"), or AnyKind or
	// Process.
	Kinds []string `json:"kinds"`
	// Severity is Must or Should.
	Severity Severity `json:"severity"`
	// Text states the rule.
	Text string `json:"text"`
}

// Rules returns all rules, in the order in which they are reported.
func Rules() []Rule {
	var all []Rule
	for _, rule := range rules.All() {
		all = append(all, Rule{ID: rule.ID, Kinds: rule.Kinds, Severity: severity(rule), Text: rule.Text})
	}
	return all
}

func severity(rule suite.Rule) Severity {
	if rule.Should {
		return Should
	}
	return Must
}
