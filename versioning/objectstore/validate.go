package objectstore

import (
	"fmt"
	"net/url"
	"strings"
)

// validatePrefixes checks the "folders" that a store listed below prefix: each is the name of one folder, with or
// without prefix before it and the delimiter after it.
func validatePrefixes(prefix, delimiter string, found []string) error {
	for _, folder := range found {
		name := strings.TrimSuffix(strings.TrimPrefix(folder, prefix), delimiter)
		if folder == "" || delimiter != "" && strings.Contains(name, delimiter) {
			return fmt.Errorf("common prefix %q must be %q, the name of a folder, and %q", folder, prefix, delimiter)
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
