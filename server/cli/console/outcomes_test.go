package console

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/internal/bucket/outcome"
)

// TestOutcomesArePaged reads each page of the result of a dry run, of which some are longer than what is written at
// once.
func TestOutcomesArePaged(t *testing.T) {
	t.Parallel()
	o := &outcomes{lists: map[outcome.Verdict]*outcomeList{}}
	defer func() { require.NoError(t, o.Close()) }()
	require.Equal(t, outcome.Created, o.first())
	require.Zero(t, o.pages(outcome.Created))
	want := map[outcome.Verdict][]string{}
	for i := range 2*perPage*len(outcome.Verdicts()) + 1 {
		verdict := outcome.Verdicts()[i%len(outcome.Verdicts())]
		name := fmt.Sprintf("item-%d", i)
		want[verdict] = append(want[verdict], name)
		require.NoError(t, o.add(outcome.Item{Resource: "configmaps", Name: name, Outcome: verdict,
			Reason: strings.Repeat("because ", 40*i)}))
		require.NoError(t, o.add(outcome.Item{Resource: "secrets", Items: 5, Outcome: outcome.LeftOut}))
	}
	require.Equal(t, outcome.Failed, o.first())
	for _, list := range o.lists {
		require.NoError(t, list.flush())
	}
	for _, verdict := range outcome.Verdicts() {
		var got []string
		for page := 1; page <= o.pages(verdict); page++ {
			items, err := o.page(verdict, page)
			require.NoError(t, err)
			require.LessOrEqual(t, len(items), perPage)
			for _, item := range items {
				require.Equal(t, verdict, item.Outcome)
				got = append(got, item.Name)
			}
		}
		require.Equal(t, want[verdict], got)
	}
	require.Equal(t, 3, o.pages(outcome.Created))
	require.Equal(t, 2, o.pages(outcome.Failed))
	o.size = mostOutcomes
	require.ErrorContains(t, o.add(outcome.Item{Name: "last", Outcome: outcome.Created}), "see it with the command")
}
