package controlplane

import (
	"crypto/rand"
	"encoding/hex"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// bucketStem matches the names to which NewBucket adds a suffix.
var bucketStem = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,45}$`)

// NewBucket creates an empty S3 bucket for a test and returns its name, which is
// stem with a random suffix. Its objects are files in S3.Dir/<name>.
func (c *Cluster) NewBucket(t testing.TB, stem string) string {
	t.Helper()
	if !bucketStem.MatchString(stem) {
		t.Fatalf("bucket %q: want 1 to 46 characters of a-z, 0-9 and -, and not - first", stem)
	}
	var suffix [4]byte
	_, _ = rand.Read(suffix[:]) // never fails
	name := stem + "-" + hex.EncodeToString(suffix[:])
	// Every directory is a bucket of the server.
	if err := os.Mkdir(filepath.Join(c.S3.Dir, name), 0o755); err != nil {
		t.Fatal(err)
	}
	return name
}
