package manifest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOmitRemovesTheAnnotationsThatTheHeaderNames(t *testing.T) {
	t.Parallel()
	shared := map[string]string{"a": "1", "b": "2", OmittedByDefault()[0]: "{}"}
	item := &Item{Annotations: shared}
	Header{}.Omit(item)
	require.Len(t, item.Annotations, 3)
	Header{OmittedAnnotations: append(OmittedByDefault(), "b", "c")}.Omit(item)
	require.Equal(t, map[string]string{"a": "1"}, item.Annotations)
	require.Len(t, shared, 3)
}
