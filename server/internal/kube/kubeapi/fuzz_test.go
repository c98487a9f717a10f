package kubeapi

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzObjectLabels reads the labels of any object.
func FuzzObjectLabels(f *testing.F) {
	f.Add([]byte(`{"metadata":{"labels":{"a":"b"}}}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, body []byte) {
		require.Nil(t, objectLabels(&Request{ContentType: MergePatch, Body: body}))
		_ = objectLabels(&Request{ContentType: JSON, Body: body})
	})
}
