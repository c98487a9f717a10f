package config

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestKeysOfBackups(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"backups: {signing: {key: {}}}\n":                            "backups.signing.key: has 0 of secret, file and kms",
		"backups: {signing: {key: {secret: a/b, file: /c}}}\n":       "backups.signing.key: has 2 of secret, file and kms; want one of them",
		"backups: {signing: {key: {secret: a}}}\n":                   "want NAME/KEY",
		"backups: {signing: {key: {kms: alias/a}}}\n":                "want the URI of a key in a KMS",
		"restores: {requireSignature: true}\n":                       "needs a key whose signatures are accepted",
		"trust: {keys: [{name: a}]}\n":                               "has 0 of secret, file and publicKey",
		"trust: {keys: [{file: /a}]}\n":                              "name",
		"trust: {keys: [{name: a, file: /a, notAfter: tomorrow}]}\n": "want a time such as 2027-01-31T00:00:00Z",
		"verification: {after: true, every: 168h, depth: all}\n":     "depth",
		"verification: {after: true, every: 168h, depth: volumes}\n": "",

		"restores: {requireSignature: true}\nbackups: {signing: {key: {secret: a/b}}}\n": "",
		"trust: {keys: [{name: a, file: /a}, {name: a, file: /b}]}\n":                    `"a" is in the list already`,
		"trust: {keys: [{name: a, file: /a, notAfter: 2027-01-31T00:00:00Z}]}\n":         "",
	} {
		file, err := Parse("cleat.yaml", []byte("apiVersion: cleat.dev/v1\n"+text))
		if want != "" {
			require.ErrorContains(t, err, want, text)
			continue
		}
		require.NoError(t, err, text)
		for _, key := range file.Trust.Keys {
			require.Equal(t, time.Date(2027, 1, 31, 0, 0, 0, 0, time.UTC), key.Until())
		}
	}
}
