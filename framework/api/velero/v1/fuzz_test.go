package v1_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzDecode checks that whatever can be decoded can be encoded, and that decoding and encoding it
// again changes nothing.
func FuzzDecode(f *testing.F) {
	for _, folder := range []string{"testdata", filepath.Join("testdata", "bare")} {
		for _, document := range readDocuments(f, folder) {
			f.Add(document)
		}
	}
	decoder := newDecoder(f)
	f.Fuzz(func(t *testing.T, document []byte) {
		if !bytes.HasPrefix(bytes.TrimSpace(document), []byte("{")) {
			return // YAML has other rules
		}
		object, _, err := decoder.Decode(document, nil, nil)
		if err != nil {
			return
		}
		first, err := json.Marshal(object)
		require.NoError(t, err)
		again, _, err := decoder.Decode(first, nil, nil)
		if err != nil && strings.Contains(err.Error(), "parsing time") {
			return // a time zone can move a time out of the years 0 to 9999 of RFC 3339
		}
		require.NoError(t, err, "%s", first)
		second, err := json.Marshal(again)
		require.NoError(t, err)
		require.Equal(t, string(first), string(second))
	})
}
