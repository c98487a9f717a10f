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

// greeting shows what a kind with two versions costs here: one line for each.
func greeting() versioning.Kind[greeter] {
	return versioning.Kind[greeter]{Name: "Greeting", Versions: []versioning.Version[greeter]{
		{Wire: "Greeting", Number: 1, Deprecated: "use v2",
			Bind: func(_ grpc.ClientConnInterface, name string) greeter { return greeterV1{name} }},
		{Wire: "GreetingV2", Number: 2,
			Bind: func(_ grpc.ClientConnInterface, name string) greeter { return greeterV2{name} }},
	}}
}

// bindUsed returns the facades of the plugins of a kind that negotiation selects.
func bindUsed[H any](conn grpc.ClientConnInterface, kind versioning.Kind[H], listed []versioning.Listed) []H {
	var used []H
	for i, outcome := range versioning.Negotiate(kind.WireKinds(), listed) {
		if version, ok := kind.Version(listed[i].Kind); ok && outcome.Used {
			used = append(used, version.Bind(conn, listed[i].Name))
		}
	}
	return used
}

func TestWireKindsDescribeVersionsWithoutHub(t *testing.T) {
	t.Parallel()
	require.Equal(t, []versioning.WireKind{
		{Kind: "Greeting", Wire: "Greeting", Number: 1, Deprecated: "use v2"},
		{Kind: "Greeting", Wire: "GreetingV2", Number: 2},
	}, greeting().WireKinds())
}
