package conformance

import (
	"slices"
	"time"

	"github.com/cleat-dev/cleat/framework/conformance/internal/rules"
	"github.com/cleat-dev/cleat/framework/conformance/internal/suite"
)

// WithSlowCall sets the duration of a call above which independent calls are made at the same time.
func WithSlowCall(d time.Duration) Option { return func(o *options) { o.SlowCall = d } }

// WithLeakTime sets the time limit for the calls of a search for leaks.
func WithLeakTime(d time.Duration) Option { return func(o *options) { o.LeakTime = d } }

// WithPatience sets how long to wait for what happens at once on an idle machine, and for the end of a process.
func WithPatience(patience, end time.Duration) Option {
	return func(o *options) { o.Patience, o.EndTime = patience, end }
}

// WithFamilyOf restricts a test to the rules of the family that the rule belongs to.
func WithFamilyOf(id string) Option {
	return func(o *options) {
		for _, family := range rules.Families() {
			if slices.ContainsFunc(family, func(rule suite.Rule) bool { return rule.ID == id }) {
				o.rules = family
			}
		}
	}
}
