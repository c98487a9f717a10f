package conformance

import "testing"

// Test checks all rules that apply to a target as subtests of t: one for the process and one for each of its plugins,
// with a subtest for each rule. Breaking a rule of severity Must fails the subtest; breaking one of severity Should is
// logged.
//
//	func TestConformance(t *testing.T) {
//		conformance.Test(t, conformance.Binary("./my-plugin"), conformance.WithConfig("", map[string]string{"bucket": "b"}))
//	}
func Test(t *testing.T, target Target, opts ...Option) {
	t.Helper()
	r, err := open(t.Context(), target, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.suite.Close)
	for checks := r.plan; len(checks) > 0; {
		of := checks[0].Subject
		name := of.Kind
		if of.Name != "" {
			name += "/" + of.Name
		}
		t.Run(name, func(t *testing.T) {
			for ; len(checks) > 0 && checks[0].Subject == of; checks = checks[1:] {
				t.Run(checks[0].Rule.ID, func(t *testing.T) { r.check(t.Context(), checks[0]).tell(t) })
			}
		})
		for len(checks) > 0 && checks[0].Subject == of { // what -run has left out
			checks = checks[1:]
		}
	}
}

func (r Result) tell(t *testing.T) {
	t.Helper()
	switch r.Outcome {
	case Failed:
		t.Errorf("%s\nSeen: %s", r.Text, r.Seen)
	case Warned:
		t.Logf("warning: %s\nSeen: %s", r.Text, r.Seen)
	case Skipped:
		t.Skip(r.Seen)
	case Passed:
	}
}
