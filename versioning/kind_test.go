package versioning_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/versioning"
)

// greeter is the hub of a kind that does not exist, in the shape of its version 2.
type greeter interface{ Greet() string }

type greeterV1 struct{ name string }

func (g greeterV1) Greet() string { return "hello " + g.name }

type greeterV2 struct{ name string }

func (g greeterV2) Greet() string { return "good morning " + g.name }

// greeting is the whole of what a kind with two versions costs here: a line for each.
func greeting() versioning.Kind[greeter] {
	return versioning.Kind[greeter]{Name: "Greeting", Versions: []versioning.Version[greeter]{
		{Wire: "Greeting", Number: 1, Deprecated: "use v2", Bind: func(_ grpc.ClientConnInterface, name string) greeter { return greeterV1{name} }},
		{Wire: "GreetingV2", Number: 2, Bind: func(_ grpc.ClientConnInterface, name string) greeter { return greeterV2{name} }},
	}}
}

func TestChooseUsesEachNameOnceAtItsNewestVersion(t *testing.T) {
	t.Parallel()
	type chosen struct {
		index int
		greet string
	}
	for name, test := range map[string]struct {
		listed []versioning.Listed
		want   []chosen
	}{
		"nothing listed":      {nil, nil},
		"old only":            {[]versioning.Listed{{Kind: "Greeting", Name: "a"}}, []chosen{{0, "hello a"}}},
		"new only":            {[]versioning.Listed{{Kind: "GreetingV2", Name: "a"}}, []chosen{{0, "good morning a"}}},
		"old before new":      {[]versioning.Listed{{Kind: "Greeting", Name: "a"}, {Kind: "GreetingV2", Name: "a"}}, []chosen{{1, "good morning a"}}},
		"new before old":      {[]versioning.Listed{{Kind: "GreetingV2", Name: "a"}, {Kind: "Greeting", Name: "a"}}, []chosen{{0, "good morning a"}}},
		"newer than we know":  {[]versioning.Listed{{Kind: "Greeting", Name: "a"}, {Kind: "GreetingV3", Name: "a"}}, []chosen{{0, "hello a"}}},
		"another kind's name": {[]versioning.Listed{{Kind: "Farewell", Name: "a"}}, nil},
		"in order of the names": {
			[]versioning.Listed{
				{Kind: "Greeting", Name: "b"}, {Kind: "Farewell", Name: "c"}, {Kind: "Greeting", Name: "a"}, {Kind: "GreetingV2", Name: "b"},
			},
			[]chosen{{3, "good morning b"}, {2, "hello a"}},
		},
		"the same line twice": {[]versioning.Listed{{Kind: "Greeting", Name: "a"}, {Kind: "Greeting", Name: "a"}}, []chosen{{0, "hello a"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []chosen
			for _, choice := range greeting().Choose(test.listed) {
				got = append(got, chosen{choice.Index, choice.Version.Bind(nil, choice.Name).Greet()})
			}
			require.Equal(t, test.want, got)
		})
	}
}

func TestWireKindsTellWithoutTheHub(t *testing.T) {
	t.Parallel()
	require.Equal(t, []versioning.WireKind{
		{Kind: "Greeting", Wire: "Greeting", Number: 1, Deprecated: "use v2"},
		{Kind: "Greeting", Wire: "GreetingV2", Number: 2},
	}, greeting().WireKinds())
}
