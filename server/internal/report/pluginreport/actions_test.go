package pluginreport

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
)

// hub is an action that applies to what it says.
type hub struct{ name, appliesTo string }

func (h hub) Name() string { return h.name }

func (h hub) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{LabelSelector: h.appliesTo}, nil
}

func TestActionsOfSameNameAreAllAsked(t *testing.T) {
	t.Parallel()
	plugins := []serverreport.Plugin{
		{Name: "a.b/late", Kind: "Late", Status: serverreport.InUse},
		{Name: "a.b/both", Kind: "Early", Version: 1, Status: serverreport.NotUsed},
		{Name: "a.b/both", Kind: "Late", Status: serverreport.InUse},
		{Name: "a.b/both", Kind: "Early", Version: 2, Status: serverreport.InUse},
		{Name: "a.b/both", Kind: "Other", Status: serverreport.InUse},
		{Name: "a.b/gone", Kind: "Early", Status: serverreport.InUse},
	}
	found := map[int]ask{}
	match(found, plugins, []string{"Early", "Late"}, []hub{{"a.b/both", "early"}, {"a.b/both", "late"},
		{"a.b/late", "alone"}})
	got := map[int]string{}
	for i, ask := range found {
		selector, err := ask(t.Context())
		require.NoError(t, err)
		got[i] = selector.LabelSelector
	}
	require.Equal(t, map[int]string{0: "alone", 2: "late", 3: "early"}, got)
}
