package backup

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseOrdered(t *testing.T) {
	t.Parallel()
	ordered, err := parseOrdered("pods=ns/a,ns/b; persistentvolumes = c")
	require.NoError(t, err)
	require.Equal(t, map[string]string{"pods": "ns/a,ns/b", "persistentvolumes": "c"}, ordered)
	for _, text := range []string{"pods", "=a", "pods=", ";"} {
		_, err := parseOrdered(text)
		require.ErrorContains(t, err, "want RESOURCE=NAMESPACE/NAME", text)
	}
}
