package restore

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// FuzzReplies reads any replies of an API server.
func FuzzReplies(f *testing.F) {
	list, err := (&metav1.PartialObjectMetadataList{Items: []metav1.PartialObjectMetadata{{}}}).Marshal()
	require.NoError(f, err)
	proto, err := (&runtime.Unknown{Raw: list}).Marshal()
	require.NoError(f, err)
	f.Add(append([]byte("k8s\x00"), proto...))
	for _, text := range []string{"", "null", "[null]", `{"metadata":{"name":"a"},"status":{"conditions":[null]}}`,
		`{"metadata":null}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(_ *testing.T, body []byte) {
		_, _ = decodeWritten(body)
		_, _, _ = checkDefinition(body)
		_, _, _ = checkAPIService(body)
		_, _, _ = checkClaim(body)
		_, _ = decodeExisting(body)
		_, _ = decodeMetadataList(body)
		_ = referencesIn(body, func(string) bool { return true })
	})
}
