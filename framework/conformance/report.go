package conformance

import (
	"fmt"
	"slices"

	"github.com/cleat-dev/cleat/framework/conformance/internal/suite"
)

// Outcome is the outcome of checking one rule.
type Outcome string

const (
	// Passed means that the rule is kept, as far as the check can see.
	Passed Outcome = "passed"
	// Failed means that a rule of severity Must is broken.
	Failed Outcome = "failed"
	// Warned means that a rule of severity Should is broken.
	Warned Outcome = "warned"
	// Skipped means that the rule could not be checked.
	Skipped Outcome = "skipped"
)

// Report holds the results of testing one target.
type Report struct {
	// Target is the path of the binary and its arguments, or "in process".
	Target string `json:"target"`
	// PluginVersion and FrameworkVersion are those that PluginInfo has; empty if it has none.
	PluginVersion    string `json:"pluginVersion,omitempty"`
	FrameworkVersion string `json:"frameworkVersion,omitempty"`
	// Interrupted reports that the test ended before all rules were checked. Those that were not are skipped.
	Interrupted bool `json:"interrupted,omitempty"`
	// Plugins holds the process as a whole first, then its plugins in the order of its list.
	Plugins []PluginReport `json:"plugins"`
}

// PluginReport holds the results of testing one plugin.
type PluginReport struct {
	// Kind is the name of the kind on the wire, like "BackupItemActionV2", or Process.
	Kind string `json:"kind"`
	// Name is "domain/name", and empty for the process.
	Name string `json:"name,omitempty"`
	// Results holds one result for each rule, in the order of Rules.
	Results []Result `json:"results"`
}

// String returns the kind and the name.
func (p PluginReport) String() string {
	if p.Name == "" {
		return p.Kind
	}
	return p.Kind + " " + p.Name
}

// Result is the result of checking one rule.
type Result struct {
	// Rule is the ID of the rule. Severity and Text are those of the rule.
	Rule     string   `json:"rule"`
	Severity Severity `json:"severity"`
	Text     string   `json:"text"`
	// Outcome is the outcome of the check.
	Outcome Outcome `json:"outcome"`
	// Seen describes what the plugin did instead if the rule is broken, or why the rule was skipped.
	Seen string `json:"seen,omitempty"`
	// Seconds is the duration of the check.
	Seconds float64 `json:"seconds"`
}

// Count returns the number of results with an outcome, over all plugins.
func (r *Report) Count(outcome Outcome) int {
	count := 0
	for _, plugin := range r.Plugins {
		for _, result := range plugin.Results {
			if result.Outcome == outcome {
				count++
			}
		}
	}
	return count
}

// Conformant reports whether the test was not interrupted and all rules that must be kept are, as far as they could be
// checked.
func (r *Report) Conformant() bool { return !r.Interrupted && r.Count(Failed) == 0 }

// Summary returns the report in one line.
func (r *Report) Summary() string {
	return fmt.Sprintf("%d passed, %d failed, %d warnings, %d skipped",
		r.Count(Passed), r.Count(Failed), r.Count(Warned), r.Count(Skipped))
}

// add appends a result to those of its plugin.
func (r *Report) add(kind, name string, result Result) {
	at := slices.IndexFunc(r.Plugins, func(p PluginReport) bool { return p.Kind == kind && p.Name == name })
	if at < 0 {
		at = len(r.Plugins)
		r.Plugins = append(r.Plugins, PluginReport{Kind: kind, Name: name})
	}
	r.Plugins[at].Results = append(r.Plugins[at].Results, result)
}

func newResult(rule suite.Rule, checked suite.Result) Result {
	result := Result{Rule: rule.ID, Severity: severity(rule), Text: rule.Text, Outcome: Passed,
		Seconds: checked.Took.Seconds()}
	switch {
	case checked.Died != "":
		result.Outcome, result.Seen = Failed, checked.Died
	case checked.Err == nil:
	case suite.IsSkip(checked.Err):
		result.Outcome, result.Seen = Skipped, checked.Err.Error()
	case rule.Should:
		result.Outcome, result.Seen = Warned, checked.Err.Error()
	default:
		result.Outcome, result.Seen = Failed, checked.Err.Error()
	}
	result.Seen = suite.Clip(result.Seen)
	return result
}
