package configmap

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzDecode decodes any document. Errors have one line.
func FuzzDecode(f *testing.F) {
	f.Add([]byte("a: {b: [1, null]}"))
	f.Add([]byte("a: &a [1]\nb: [*a, *a]"))
	f.Add([]byte("a: 1\na: 2"))
	f.Fuzz(func(t *testing.T, document []byte) {
		_, err := Decode[struct {
			A map[string][]any `json:"a"`
			B *int             `json:"b"`
		}](document)
		if err != nil {
			require.False(t, strings.ContainsAny(err.Error(), "\n\r"), "%q", err)
		}
		if _, _, err := DecodeKnown[struct{ A map[string][]any }](document); err != nil {
			require.False(t, strings.ContainsAny(err.Error(), "\n\r"), "%q", err)
		}
		if text, err := JSON(document); err == nil {
			require.True(t, json.Valid(text), "%s", text)
		}
	})
}
