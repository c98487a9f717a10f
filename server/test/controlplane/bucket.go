package controlplane

import (
	"crypto/rand"
	"encoding/hex"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// bucketStem matches the names to which NewBucket adds a suffix.
var bucketStem = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,45}$`)

// S3Client returns a client of the S3 server, with all rights.
func (c *Cluster) S3Client() *s3.Client {
	return s3.New(s3.Options{
		BaseEndpoint: aws.String(c.S3.Endpoint), Region: c.S3.Region, UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(c.S3.AccessKey, c.S3.SecretKey, ""),
	})
}

// NewLockingBucket creates an empty S3 bucket with Object Lock and versions. rule is what the bucket itself sets for
// each object; nil for nothing.
func (c *Cluster) NewLockingBucket(t testing.TB, stem string, rule *types.DefaultRetention) string {
	t.Helper()
	name := newName(t, stem)
	_, err := c.S3Client().CreateBucket(t.Context(),
		&s3.CreateBucketInput{Bucket: &name, ObjectLockEnabledForBucket: aws.Bool(true)})
	if err == nil && rule != nil {
		_, err = c.S3Client().PutObjectLockConfiguration(t.Context(), &s3.PutObjectLockConfigurationInput{Bucket: &name,
			ObjectLockConfiguration: &types.ObjectLockConfiguration{ObjectLockEnabled: types.ObjectLockEnabledEnabled,
				Rule: &types.ObjectLockRule{DefaultRetention: rule}}})
	}
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// NewVersionedBucket creates an empty S3 bucket with versions.
func (c *Cluster) NewVersionedBucket(t testing.TB, stem string) string {
	t.Helper()
	name := c.NewBucket(t, stem)
	_, err := c.S3Client().PutBucketVersioning(t.Context(), &s3.PutBucketVersioningInput{Bucket: &name,
		VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatusEnabled}})
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// NewBucket creates an empty S3 bucket for a test and returns its name, which is
// stem with a random suffix. Its objects are files in S3.Dir/<name>.
func (c *Cluster) NewBucket(t testing.TB, stem string) string {
	t.Helper()
	name := newName(t, stem)
	// Every directory is a bucket of the server.
	if err := os.Mkdir(filepath.Join(c.S3.Dir, name), 0o755); err != nil {
		t.Fatal(err)
	}
	return name
}

// S3Writes returns the keys of the objects that were written to a bucket, in order, by the access log of the S3 server. A
// key that was written twice is there twice.
func (c *Cluster) S3Writes(t testing.TB, bucket string) (keys []string) {
	t.Helper()
	log, err := os.ReadFile(filepath.Join(c.Dir, "logs", "s3-access.log"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(log)) {
		// owner bucket [day zone] address requester request operation key uri status
		fields := strings.Fields(line)
		const atBucket, atOperation, atKey, atStatus, enough = 1, 7, 8, 10, 11
		if len(fields) < enough || fields[atBucket] != bucket || fields[atStatus] != "200" {
			continue
		}
		switch operation := fields[atOperation]; {
		case strings.HasSuffix(operation, "PutObject"), strings.HasSuffix(operation, "CompleteMultipartUpload"):
			keys = append(keys, fields[atKey])
		}
	}
	return keys
}

// newName returns the name of a new bucket.
func newName(t testing.TB, stem string) string {
	t.Helper()
	if !bucketStem.MatchString(stem) {
		t.Fatalf("bucket %q: want 1 to 46 characters of a-z, 0-9 and -, and not - first", stem)
	}
	var suffix [4]byte
	_, _ = rand.Read(suffix[:]) // never fails
	return stem + "-" + hex.EncodeToString(suffix[:])
}
