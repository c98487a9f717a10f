package filestore

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cleat-dev/cleat/framework"
)

// Config is the configuration of a location.
type Config struct {
	// Path is the directory that holds the buckets.
	Path string `json:"path" jsonschema:"The absolute path of the directory that holds the bucket."`
	// CredentialsFile is set by the host when the location has credentials, which a file store does not accept.
	CredentialsFile string `json:"credentialsFile,omitempty"`
}

// Validate checks the rules that a schema cannot express.
func (c Config) Validate() error {
	if c.CredentialsFile != "" {
		return errors.New("a file store takes no credentials: remove spec.credential from the location")
	}
	if !filepath.IsAbs(c.Path) {
		return framework.InvalidKey("path", fmt.Errorf("it is %q, want the absolute path of the directory that holds the "+
			"bucket", c.Path))
	}
	return nil
}

// checkBucket returns an error unless a bucket is one directory directly below the root.
func checkBucket(bucket string) error {
	if bucket == "" || bucket == "." || bucket == ".." || strings.ContainsAny(bucket, `/\`) ||
		slices.Contains([]byte(bucket), 0) {
		return fmt.Errorf("bucket %q cannot be the name of a directory", bucket)
	}
	return nil
}
