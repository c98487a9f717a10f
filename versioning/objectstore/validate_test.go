package objectstore

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestValidatePrefixesRequiresNamesOfFolders(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		prefix, folder string
		fine           bool
	}{
		{"", "backups/", true},
		{"backups/", "backups/a/", true},
		{"", "backups", true},
		{"backups/", "backups/a", true},
		{"backups/", "a/", true},
		{"backups/", "a", true},
		{"backups/", "backups/", true}, // names nothing; callers leave it out
		{"", "", false},
		{"backups/", "backups/a/b/", false},
		{"backups/", "restores/a/", false},
		{"backups/", "/", true},
	} {
		err := validatePrefixes(test.prefix, "/", []string{test.folder})
		require.Equal(t, test.fine, err == nil, "%q below %q: %v", test.folder, test.prefix, err)
	}
	require.NoError(t, validatePrefixes("x", "/", nil))
}

func TestValidateKeysRequiresKeysBelowPrefix(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		prefix, key string
		fine        bool
	}{
		{"", "a", true}, {"a/", "a/b", true}, {"a/b", "a/bc", true}, {"a/", "a/", true},
		{"", "", false}, {"a/", "b/a/", false}, {"a/", "b", false},
	} {
		err := validateKeys(test.prefix, []string{test.key})
		require.Equal(t, test.fine, err == nil, "%q below %q: %v", test.key, test.prefix, err)
	}
}

func TestValidateURLRequiresAbsoluteURL(t *testing.T) {
	t.Parallel()
	for signed, fine := range map[string]bool{
		"https://host/bucket/key?sig=x": true, "http://127.0.0.1:9000/x": true, "file:///tmp/x": true,
		"": false, "host/key": false, "/key": false, "https://host:port/secret": false, "%": false,
	} {
		err := validateURL(signed)
		require.Equal(t, fine, err == nil, "%q: %v", signed, err)
		if err != nil {
			require.NotContains(t, err.Error(), "secret", "a signed URL is a secret")
		}
	}
}
