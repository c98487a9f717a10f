package s3store_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awscredentials "github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"

	objectstorev1 "github.com/cleat-dev/cleat/framework/objectstore/v1"
	"github.com/cleat-dev/cleat/plugins/internal/storetest"
	"github.com/cleat-dev/cleat/plugins/s3store"
	"github.com/cleat-dev/cleat/server/test/controlplane"
)

var plane = controlplane.Shared{Common: true}

func TestMain(m *testing.M) { os.Exit(plane.Main(m)) }

// config returns the configuration of a location on the real S3 server.
func config(t *testing.T, c *controlplane.Cluster) s3store.Config {
	t.Helper()
	config := s3store.Defaults()
	config.S3URL, config.Region, config.S3ForcePathStyle = c.S3.Endpoint, c.S3.Region, true
	config.CredentialsFile = credentials(t, fmt.Sprintf("[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n",
		c.S3.AccessKey, c.S3.SecretKey))
	return config
}

func TestContract(t *testing.T) {
	t.Parallel()
	c := plane.Get(t)
	direct := s3.New(s3.Options{
		BaseEndpoint: aws.String(c.S3.Endpoint), Region: c.S3.Region, UsePathStyle: true,
		Credentials: awscredentials.NewStaticCredentialsProvider(c.S3.AccessKey, c.S3.SecretKey, ""),
	})
	storetest.Run(t, storetest.Fixture{
		Register: s3store.Register,
		Config: func(t *testing.T) map[string]string {
			t.Helper()
			config := config(t, c)
			return map[string]string{
				"s3Url": config.S3URL, "region": config.Region, "s3ForcePathStyle": "true",
				"credentialsFile": config.CredentialsFile,
				"bucket":          c.NewBucket(t, "contract"),
			}
		},
		New: func(t *testing.T) (objectstorev1.ObjectStore, string) {
			t.Helper()
			s, err := s3store.New(t.Context(), config(t, c))
			require.NoError(t, err)
			return s, c.NewBucket(t, "contract")
		},
		Unfinished: func(t *testing.T, bucket string) []string {
			t.Helper()
			uploads, err := direct.ListMultipartUploads(t.Context(), &s3.ListMultipartUploadsInput{Bucket: &bucket})
			require.NoError(t, err)
			var keys []string
			for _, upload := range uploads.Uploads {
				keys = append(keys, aws.ToString(upload.Key))
			}
			return keys
		},
	})
}

func TestUploadsWorkWithEveryChecksum(t *testing.T) {
	t.Parallel()
	c := plane.Get(t)
	for _, algorithm := range []string{"", "CRC32", "CRC32C", "SHA256"} {
		t.Run(algorithm, func(t *testing.T) {
			t.Parallel()
			config := config(t, c)
			config.ChecksumAlgorithm = algorithm
			s, err := s3store.New(t.Context(), config)
			require.NoError(t, err)
			bucket := c.NewBucket(t, "checksum")
			for _, size := range []int{10, 17 << 20} {
				require.NoError(t, s.PutObject(t.Context(), &objectstorev1.PutObjectInput{Bucket: bucket, Key: "key",
					Body: strings.NewReader(strings.Repeat("x", size))}))
				object, err := s.GetObject(t.Context(), &objectstorev1.GetObjectInput{Bucket: bucket, Key: "key"})
				require.NoError(t, err)
				n, err := io.Copy(io.Discard, object.Body)
				require.NoError(t, err)
				require.EqualValues(t, size, n)
				require.NoError(t, object.Body.Close())
			}
		})
	}
}

func TestSignedURLsAreAtThePublicURL(t *testing.T) {
	t.Parallel()
	c := plane.Get(t)
	config := config(t, c)
	config.PublicURL = "https://downloads.example.com"
	s, err := s3store.New(t.Context(), config)
	require.NoError(t, err)
	signed, err := s.CreateSignedURL(t.Context(), &objectstorev1.CreateSignedURLInput{Bucket: "bucket",
		Key: "backups/b/b-logs.gz", TTL: 10 * time.Minute})
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(signed.URL, "https://downloads.example.com/bucket/backups/b/b-logs.gz?"), signed.URL)
	require.Contains(t, signed.URL, "X-Amz-Expires=600")
}

// Each case is a mistake in a location; the error says what to correct.
func TestErrorsSayWhatToCheck(t *testing.T) {
	t.Parallel()
	c := plane.Get(t)
	good := config(t, c)
	at := func(endpoint string) s3store.Config {
		changed := good
		changed.S3URL = endpoint
		return changed
	}
	file := func(key, secret string) s3store.Config {
		changed := good
		changed.CredentialsFile = credentials(t, "[default]\naws_access_key_id="+key+"\naws_secret_access_key="+secret+"\n")
		return changed
	}
	for name, test := range map[string]struct {
		config s3store.Config
		want   []string
	}{
		"wrong secret key": {file(c.S3.AccessKey, "wrong"), []string{c.S3.Endpoint, "credentials were refused",
			`profile "default" in the Secret of spec.credential`}},
		"wrong access key": {file("wrong", c.S3.SecretKey), []string{c.S3.Endpoint, "credentials were refused"}},
		"nothing there":    {at("http://127.0.0.1:1"), []string{"nothing answers at http://127.0.0.1:1", "config.s3Url"}},
		"no such host":     {at("http://s3.invalid"), []string{"nothing answers at http://s3.invalid"}},
		"TLS to plain": {at(strings.Replace(c.S3.Endpoint, "http://", "https://", 1)),
			[]string{"does not speak TLS", "scheme of config.s3Url"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := s3store.New(t.Context(), test.config)
			require.NoError(t, err)
			bucket := c.NewBucket(t, "errors")
			_, listErr := s.ListCommonPrefixes(t.Context(), &objectstorev1.ListCommonPrefixesInput{Bucket: bucket,
				Delimiter: "/"})
			_, existsErr := s.ObjectExists(t.Context(), &objectstorev1.ObjectExistsInput{Bucket: bucket, Key: "key"})
			if name == "wrong access key" {
				existsErr = listErr // versitygw answers HEAD with 404, like for a missing object
			}
			putErr := s.PutObject(t.Context(), &objectstorev1.PutObjectInput{Bucket: bucket, Key: "key",
				Body: strings.NewReader("x")})
			for _, err := range []error{listErr, existsErr, putErr} {
				require.ErrorContains(t, err, bucket)
				for _, want := range test.want {
					require.ErrorContains(t, err, want)
				}
				require.NotContains(t, err.Error(), "\n")
				require.NotContains(t, err.Error(), c.S3.SecretKey)
			}
		})
	}
}

func TestTLSRequiresCA(t *testing.T) {
	t.Parallel()
	c, err := controlplane.Start(t.Context(), controlplane.Options{S3TLS: true, Log: t.Output()})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Stop()) }()
	pem, err := os.ReadFile(c.S3.CAFile)
	require.NoError(t, err)
	bucket := c.NewBucket(t, "tls")
	for name, test := range map[string]struct {
		caCert   string
		insecure bool
		want     string
	}{
		"without":       {want: "put that CA into spec.objectStorage.caCertRef"},
		"with CA":       {caCert: string(pem)},
		"not verifying": {insecure: true},
	} {
		config := config(t, c)
		config.CACert, config.InsecureSkipTLSVerify = test.caCert, test.insecure
		s, err := s3store.New(t.Context(), config)
		require.NoError(t, err, name)
		err = s.PutObject(t.Context(), &objectstorev1.PutObjectInput{Bucket: bucket, Key: filepath.Base(name),
			Body: strings.NewReader("x")})
		if test.want == "" {
			require.NoError(t, err, name)
		} else {
			require.ErrorContains(t, err, test.want, name)
		}
	}
}
