package v1_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation"

	v1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

func TestValidLabelValueShortensLongValues(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ value, want string }{
		"empty":                 {"", ""},
		"short":                 {"nightly", "nightly"},
		"longest that fits":     {strings.Repeat("a", 63), strings.Repeat("a", 63)},
		"one too long":          {strings.Repeat("a", 64), strings.Repeat("a", 57) + "ffe054"},
		"differs after the cut": {strings.Repeat("a", 63) + "b", strings.Repeat("a", 57) + "97aa7c"},
		"longest object name":   {strings.Repeat("x", 253), strings.Repeat("x", 57) + "1329e1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := v1.ValidLabelValue(row.value)
			require.Equal(t, row.want, got)
			require.Empty(t, validation.IsValidLabelValue(got))
			require.Equal(t, got, v1.ValidLabelValue(got), "a second call must not change the value")
		})
	}
}
