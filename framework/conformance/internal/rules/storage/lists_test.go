package storage

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDifferencesOfListsAreNamed(t *testing.T) {
	t.Parallel()
	var many []string
	for i := range 1005 {
		many = append(many, fmt.Sprintf("b%04d/", i))
	}
	other := append([]string{"b0007"}, many...)
	other = append(other[:8], other[9:]...)
	for name, test := range map[string]struct {
		got, want []string
		text      string
	}{
		"a wrong one of many": {other, many, `x: 1005 are listed, want 1005; missing: ["b0007/"]; unexpected: ["b0007"]`},
		"most are missing":    {many[:100], many, `x: 100 are listed, want 1005; 905 are missing, the first is "b0100/"`},
		"one twice": {[]string{"a", "b", "a"}, []string{"a", "b"},
			`x: 3 are listed, want 2; listed more than once: ["a"]`},
		"all unexpected": {[]string{"a"}, nil, `x: 1 are listed, want 0; unexpected: ["a"]`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.EqualError(t, same("x", test.got, test.want), test.text)
		})
	}
	require.NoError(t, same("x", []string{"b", "a"}, []string{"a", "b"}))
}
