package s3store

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"

	tmtypes "github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager/types"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cleat-dev/cleat/framework"
)

// Config is the configuration of a location.
type Config struct {
	Region                string          `json:"region,omitempty" jsonschema:"The region of the bucket, like eu-central-1. Servers other than Amazon's rarely need it."`
	S3URL                 string          `json:"s3Url,omitempty" jsonschema:"The URL of an S3 server other than Amazon's, like https://s3.example.com:9000."`
	PublicURL             string          `json:"publicUrl,omitempty" jsonschema:"The URL of the S3 server for signed URLs, if users reach it at another one than s3Url."`
	S3ForcePathStyle      bool            `json:"s3ForcePathStyle,omitempty" jsonschema:"Whether the bucket is part of the path of URLs instead of the host name."`
	InsecureSkipTLSVerify bool            `json:"insecureSkipTLSVerify,omitempty" jsonschema:"Whether any certificate of the S3 server is accepted."`
	Profile               string          `json:"profile,omitempty" jsonschema:"The profile in the credentials file. The default is called default."`
	ServerSideEncryption  string          `json:"serverSideEncryption,omitempty" jsonschema:"How S3 encrypts objects: AES256 or aws:kms. With kmsKeyId the default is aws:kms."`
	KMSKeyID              string          `json:"kmsKeyId,omitempty" jsonschema:"The key with which S3 encrypts objects."`
	ChecksumAlgorithm     string          `json:"checksumAlgorithm" jsonschema:"The checksum that uploads carry, such as CRC32 or SHA256. Empty for S3 servers that know none."`
	ObjectLockMode        string          `json:"objectLockMode,omitempty" jsonschema:"How the files of a finished backup are locked: GOVERNANCE or COMPLIANCE. The bucket must have Object Lock. Nothing is locked without it."`
	ObjectLockFor         metav1.Duration `json:"objectLockFor,omitzero" jsonschema:"For how long they are locked, like 720h. Without it, until the backup expires."`
	// CACert and CredentialsFile are set by the host.
	CACert          string `json:"caCert,omitempty" jsonschema:"The certificates of the location's caCertRef or caCert, in PEM."`
	CredentialsFile string `json:"credentialsFile,omitempty" jsonschema:"The path of an AWS credentials file. Without one, the server's environment has the credentials."`
}

// Defaults returns the values of keys that a location does not set.
func Defaults() Config { return Config{ChecksumAlgorithm: string(types.ChecksumAlgorithmCrc32)} }

// Validate checks the rules that a schema cannot express.
func (c Config) Validate() error {
	return errors.Join(
		framework.InvalidKey("s3Url", checkURL(c.S3URL)),
		framework.InvalidKey("publicUrl", checkURL(c.PublicURL)),
		framework.InvalidKey("caCert", checkCA(c.CACert)),
		framework.InvalidKey("serverSideEncryption",
			checkOneOf(c.ServerSideEncryption, types.ServerSideEncryption("").Values())),
		framework.InvalidKey("objectLockMode", checkOneOf(c.mode(), types.ObjectLockMode("").Values())),
		framework.InvalidKey("objectLockFor", c.checkLockFor()),
		framework.InvalidKey("checksumAlgorithm", checkOneOf(c.ChecksumAlgorithm, types.ChecksumAlgorithm("").Values())),
	)
}

// mode returns the mode of locks in the words of S3, or "".
func (c Config) mode() string { return strings.ToUpper(c.ObjectLockMode) }

func (c Config) checkLockFor() error {
	switch {
	case c.ObjectLockFor.Duration < 0:
		return fmt.Errorf("it is %s, want a time like 720h", c.ObjectLockFor.Duration)
	case c.ObjectLockFor.Duration > 0 && c.ObjectLockMode == "":
		return errors.New("it has no effect without objectLockMode, want GOVERNANCE or COMPLIANCE there")
	}
	return nil
}

func checkURL(text string) error {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil || u.RawQuery != "" ||
		u.Fragment != "" {
		return fmt.Errorf("it is %q, want a URL like https://s3.example.com:9000", text)
	}
	return nil
}

func checkCA(pem string) error {
	if pem != "" && !x509.NewCertPool().AppendCertsFromPEM([]byte(pem)) {
		return errors.New("the location's CA certificate (caCert or caCertRef) has no certificate in it, want PEM")
	}
	return nil
}

// checkOneOf returns an error unless value is empty or one of known.
func checkOneOf[T ~string](value string, known []T) error {
	if value != "" && !slices.Contains(known, T(value)) {
		return fmt.Errorf("it is %q, want one of %v, or nothing", value, known)
	}
	return nil
}

// systemCertificates is the variable that names the file with the certificates of the system.
const systemCertificates = "SSL_CERT_FILE"

// roots returns the certificates of the system and of CACert, or nil if the system's, as the process has read them once,
// are all.
func (c Config) roots() (*x509.CertPool, error) {
	file := os.Getenv(systemCertificates)
	if c.CACert == "" && file == "" {
		return nil, nil //nolint:nilnil // nil stands for the system's certificates
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("load the system's certificates: %w", err)
	}
	if pem, err := os.ReadFile(file); err == nil { // it may have changed since the process began
		roots.AppendCertsFromPEM(pem)
	}
	roots.AppendCertsFromPEM([]byte(c.CACert))
	return roots, nil
}

// encryption returns how S3 encrypts objects.
func (c Config) encryption() types.ServerSideEncryption {
	if c.ServerSideEncryption == "" && c.KMSKeyID != "" {
		return types.ServerSideEncryptionAwsKms
	}
	return types.ServerSideEncryption(c.ServerSideEncryption)
}

// checksum returns the algorithm of checksums; "" means none.
func (c Config) checksum() tmtypes.ChecksumAlgorithm {
	return tmtypes.ChecksumAlgorithm(c.ChecksumAlgorithm)
}
