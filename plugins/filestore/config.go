package filestore

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// checkConfig returns the directory that holds the buckets. It refuses keys that it does not know. The
// host adds bucket, prefix and, where set, caCert, which has no meaning here.
func checkConfig(config map[string]string) (string, error) {
	for key := range config {
		switch key {
		case "path", "bucket", "prefix", "caCert":
		case "credentialsFile":
			return "", fmt.Errorf("a file store takes no credentials: remove spec.credential from the location")
		default:
			return "", fmt.Errorf("config has the unknown key %q; the only key of a file store is path", key)
		}
	}
	path := config["path"]
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf("config.path is %q, want the absolute path of the directory that holds the bucket", path)
	}
	return filepath.Clean(path), nil
}

// checkBucket makes sure that a bucket is one directory right in the root.
func checkBucket(bucket string) error {
	if bucket == "" || bucket == "." || bucket == ".." || strings.ContainsAny(bucket, `/\`) || slices.Contains([]byte(bucket), 0) {
		return fmt.Errorf("bucket %q cannot be the name of a directory", bucket)
	}
	return nil
}
