package objectstore

import (
	"fmt"
	"net/url"
	"strings"
)

// validatePrefixes checks the "folders" that a store listed below prefix: each starts with it, is longer, and
// ends in the delimiter.
func validatePrefixes(prefix, delimiter string, found []string) error {
	for _, folder := range found {
		if len(folder) <= len(prefix) || !strings.HasPrefix(folder, prefix) || !strings.HasSuffix(folder, delimiter) {
			return fmt.Errorf("common prefix %q must start with %q, be longer, and end in %q", folder, prefix, delimiter)
		}
	}
	return nil
}

// validateKeys checks the keys that a store listed: each is a key and starts with prefix.
func validateKeys(prefix string, found []string) error {
	for _, key := range found {
		if key == "" || !strings.HasPrefix(key, prefix) {
			return fmt.Errorf("key %q must start with %q", key, prefix)
		}
	}
	return nil
}

// validateURL checks that a client can use a signed URL: it must be absolute.
func validateURL(signed string) error {
	parsed, err := url.Parse(signed)
	if err != nil {
		return fmt.Errorf("signed URL: %w", withoutURL(err))
	}
	if parsed.Scheme == "" {
		return fmt.Errorf("signed URL has no scheme, want one like https://host/path")
	}
	return nil
}

// withoutURL removes the URL from the error: it is a secret for as long as it is valid.
func withoutURL(err error) error {
	if parse, ok := err.(*url.Error); ok { //nolint:errorlint // url.Parse returns nothing else
		return parse.Err
	}
	return err
}
