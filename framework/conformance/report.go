package conformance

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Outcome is how the check of one rule ended.
type Outcome string

const (
	// Passed is a rule that is kept, as far as was seen.
	Passed Outcome = "passed"
	// Failed is a rule that must be kept and is not.
	Failed Outcome = "failed"
	// Warned is a rule that should be kept and is not.
	Warned Outcome = "warned"
	// Skipped is a rule that could not be checked here.
	Skipped Outcome = "skipped"
)

// Report is what was found out about a target.
type Report struct {
	// Target is what was tested: a path and its arguments, or "in process".
	Target string `json:"target"`
	// PluginVersion and FrameworkVersion are what the process tells; empty when it does not.
	PluginVersion    string `json:"pluginVersion,omitempty"`
	FrameworkVersion string `json:"frameworkVersion,omitempty"`
	// Interrupted reports that the test ended before all rules were checked. Those that were not are skipped.
	Interrupted bool `json:"interrupted,omitempty"`
	// Plugins are the process as a whole first, and then the plugins in the order of its list.
	Plugins []PluginReport `json:"plugins"`
}

// PluginReport is what was found out about one plugin.
type PluginReport struct {
	// Kind is the word of the wire, "BackupItemActionV2", or Process.
	Kind string `json:"kind"`
	// Name is "domain/name"; empty for the process.
	Name string `json:"name,omitempty"`
	// Results are in the order of the rules.
	Results []Result `json:"results"`
}

// String names what was tested.
func (p PluginReport) String() string {
	if p.Name == "" {
		return p.Kind
	}
	return p.Kind + " " + p.Name
}

// Result is the check of one rule.
type Result struct {
	// Rule is the id of the rule, Severity and Text are the rule's.
	Rule     string   `json:"rule"`
	Severity Severity `json:"severity"`
	Text     string   `json:"text"`
	// Outcome is how it ended.
	Outcome Outcome `json:"outcome"`
	// Seen is what was seen instead when the rule is broken, and why when it was skipped.
	Seen string `json:"seen,omitempty"`
	// Seconds is how long it took.
	Seconds float64 `json:"seconds"`
}

// Count is how many rules ended so, of all plugins.
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

// Summary is the report in one line.
func (r *Report) Summary() string {
	return fmt.Sprintf("%d passed, %d failed, %d warnings, %d skipped",
		r.Count(Passed), r.Count(Failed), r.Count(Warned), r.Count(Skipped))
}

// add files the result of one rule under what it is about.
func (r *Report) add(kind, name string, result Result) {
	at := slices.IndexFunc(r.Plugins, func(p PluginReport) bool { return p.Kind == kind && p.Name == name })
	if at < 0 {
		at = len(r.Plugins)
		r.Plugins = append(r.Plugins, PluginReport{Kind: kind, Name: name})
	}
	r.Plugins[at].Results = append(r.Plugins[at].Results, result)
}

// result is how the check of a rule ended with err.
func (r Rule) result(err error, died string, took time.Duration) Result {
	result := Result{Rule: r.ID, Severity: r.Severity, Text: r.Text, Outcome: Passed, Seconds: took.Seconds()}
	var why *skipped
	switch {
	case died != "":
		result.Outcome, result.Seen = Failed, died
	case err == nil:
	case asSkipped(err, &why):
		result.Outcome, result.Seen = Skipped, why.reason
	case r.Severity == Should:
		result.Outcome, result.Seen = Warned, err.Error()
	default:
		result.Outcome, result.Seen = Failed, err.Error()
	}
	result.Seen = clip(result.Seen)
	return result
}

// maxSeen is how much of what was seen is told, in bytes.
const maxSeen = 2000

func clip(text string) string {
	if cut := len(text) - maxSeen; cut > 0 {
		return fmt.Sprintf("%s... (%d bytes more)", text[:maxSeen], cut)
	}
	return text
}

// brief is some foreign bytes in a message.
func brief(data []byte) string {
	const enough = 200
	if len(data) == 0 {
		return "nothing"
	}
	return cmp.Or(fmt.Sprintf("%.*q", enough, data))
}
