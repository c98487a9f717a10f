package versioning_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/versioning"
)

func TestNegotiateUsesEachNameOnceAtItsNewestVersion(t *testing.T) {
	t.Parallel()
	const newest, second = "newest version that both know", "version 2 of the same name is used"
	line := func(kind, name string) versioning.Listed { return versioning.Listed{Kind: kind, Name: name} }
	for name, test := range map[string]struct {
		listed  []versioning.Listed
		choices []string // of each line
		greets  []string // of those that are used
	}{
		"nothing listed": {nil, nil, nil},
		"old only":       {[]versioning.Listed{line("Greeting", "a")}, []string{newest}, []string{"hello a"}},
		"new only":       {[]versioning.Listed{line("GreetingV2", "a")}, []string{newest}, []string{"good morning a"}},
		"old before new": {[]versioning.Listed{line("Greeting", "a"), line("GreetingV2", "a")}, []string{second, newest},
			[]string{"good morning a"}},
		"new before old": {[]versioning.Listed{line("GreetingV2", "a"), line("Greeting", "a")}, []string{newest, second},
			[]string{"good morning a"}},
		"newer than we know": {
			[]versioning.Listed{line("Greeting", "a"), line("GreetingV3", "a")},
			[]string{newest, "this server knows versions 1 and 2 of Greeting, not 3"}, []string{"hello a"},
		},
		"another kind": {[]versioning.Listed{line("Farewell", "a")},
			[]string{`this server does not know the kind "Farewell"`}, nil},
		"two names": {
			[]versioning.Listed{line("Greeting", "b"), line("Greeting", "a"), line("GreetingV2", "b")},
			[]string{second, newest, newest}, []string{"hello a", "good morning b"},
		},
		"the same line twice": {
			[]versioning.Listed{line("Greeting", "a"), line("Greeting", "a")},
			[]string{newest, "the same name and version come earlier"}, []string{"hello a"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var choices, greets []string
			for _, outcome := range versioning.Negotiate(greeting().WireKinds(), test.listed) {
				choices = append(choices, outcome.Choice)
			}
			for _, used := range bindUsed(nil, greeting(), test.listed) {
				greets = append(greets, used.Greet())
			}
			require.Equal(t, test.choices, choices)
			require.Equal(t, test.greets, greets)
		})
	}
}
