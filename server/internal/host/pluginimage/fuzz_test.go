package pluginimage

import (
	"encoding/json"
	"path/filepath"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/stretchr/testify/require"
)

// FuzzRecord reads any record of installed images. No file of it is outside the directory.
func FuzzRecord(f *testing.F) {
	f.Add([]byte(`[{"image":"a","files":[{"name":"b"}]}]`))
	f.Add([]byte(`[null]`))
	f.Add([]byte(`[{"files":[{"name":"../b"}]}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s := new(Store)
		if s.parse(data) != nil {
			return
		}
		for _, image := range s.Images {
			for _, file := range image.Files {
				require.True(t, filepath.IsLocal(file.Name))
			}
		}
	})
}

// FuzzSigned reads anything that is signed. Only what names the digest is about the image.
func FuzzSigned(f *testing.F) {
	const digest = "sha256:0123456789012345678901234567890123456789012345678901234567890123"
	hash, err := v1.NewHash(digest)
	require.NoError(f, err)
	f.Add([]byte(`{"critical":{"identity":{"docker-reference":"a"},"image":{"docker-manifest-digest":"` + digest +
		`"},"type":"cosign container image signature"}}`))
	f.Add([]byte(`{"predicateType":"` + signPredicate + `","subject":[{"digest":{"sha256":"` + hash.Hex + `"}}]}`))
	f.Add([]byte(`{"subject":[null]}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		i := &Image{Digest: hash}
		if i.isSigned(content) == nil || i.isStated(content) == nil {
			require.True(t, json.Valid(content))
		}
	})
}
