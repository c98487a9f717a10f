package backup

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/internal/spec/filter"
)

func TestAllNamespacesAreListedTogetherIfManyAreIncluded(t *testing.T) {
	t.Parallel()
	existing := make([]string, 100)
	for i := range existing {
		existing[i] = fmt.Sprintf("ns-%02d", i)
	}
	for name, tt := range map[string]struct {
		includes, excludes, existing []string
		want                         bool
	}{
		"everything":              {existing: existing, want: true},
		"everything but one":      {excludes: existing[:1], existing: existing, want: true},
		"one":                     {includes: existing[:1], existing: existing},
		"all four of four":        {includes: existing[:4], existing: existing[:4]},
		"all five of five":        {includes: existing[:5], existing: existing[:5], want: true},
		"a quarter":               {includes: existing[:25], existing: existing, want: true},
		"less than a quarter":     {includes: existing[:24], existing: existing},
		"a glob over all of them": {includes: []string{"ns-*"}, existing: existing, want: true},
		"a glob over a tenth":     {includes: []string{"ns-0*"}, existing: existing},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespaces, err := filter.NewNamespaces(tt.includes, tt.excludes, tt.existing)
			require.NoError(t, err)
			require.Equal(t, tt.want, listTogether(namespaces))
		})
	}
}
