package s3store

import (
	"cmp"
	"crypto/x509"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	tmtypes "github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager/types"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// settings is the validated configuration of a location.
type settings struct {
	region          string
	endpoint        string // s3Url; "" means Amazon's
	publicEndpoint  string // publicUrl, for signed URLs; "" means endpoint
	pathStyle       bool
	insecure        bool
	roots           *x509.CertPool // nil means the system's
	credentialsFile string         // "" means the environment
	profile         string
	encryption      types.ServerSideEncryption
	kmsKey          string
	checksum        tmtypes.ChecksumAlgorithm // "" means none
}

// allowedKeys returns the keys that a user may set in config.
func allowedKeys() []string {
	return []string{
		"checksumAlgorithm", "credentialsFile", "insecureSkipTLSVerify", "kmsKeyId", "profile", "publicUrl", "region",
		"s3ForcePathStyle", "s3Url", "serverSideEncryption",
	}
}

// addedKeys returns the keys that the host adds.
func addedKeys() []string { return []string{"bucket", "prefix", "caCert"} }

func checkConfig(config map[string]string) (settings, error) {
	for key := range config {
		if !slices.Contains(allowedKeys(), key) && !slices.Contains(addedKeys(), key) {
			return settings{}, fmt.Errorf("config has the unknown key %q, want one of %s", key, strings.Join(allowedKeys(), ", "))
		}
	}
	s := settings{
		region:          config["region"],
		credentialsFile: config["credentialsFile"],
		profile:         config["profile"],
		kmsKey:          config["kmsKeyId"],
	}
	var err error
	if s.endpoint, err = checkURL(config, "s3Url"); err != nil {
		return settings{}, err
	}
	if s.publicEndpoint, err = checkURL(config, "publicUrl"); err != nil {
		return settings{}, err
	}
	if s.pathStyle, err = checkBool(config, "s3ForcePathStyle"); err != nil {
		return settings{}, err
	}
	if s.insecure, err = checkBool(config, "insecureSkipTLSVerify"); err != nil {
		return settings{}, err
	}
	if s.roots, err = checkCA(config["caCert"]); err != nil {
		return settings{}, err
	}
	if s.encryption, err = checkEncryption(config["serverSideEncryption"], s.kmsKey); err != nil {
		return settings{}, err
	}
	if s.checksum, err = checkChecksum(config); err != nil {
		return settings{}, err
	}
	return s, nil
}

func checkURL(config map[string]string, key string) (string, error) {
	text := config[key]
	if text == "" {
		return "", nil
	}
	u, err := url.Parse(text)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", fmt.Errorf("config.%s is %q, want a URL like https://s3.example.com:9000", key, text)
	}
	return text, nil
}

func checkBool(config map[string]string, key string) (bool, error) {
	value, err := strconv.ParseBool(cmp.Or(config[key], "false"))
	if err != nil {
		return false, fmt.Errorf("config.%s is %q, want \"true\" or \"false\"", key, config[key])
	}
	return value, nil
}

// checkCA returns the system's certificates and those in pem, or nil if pem is empty.
func checkCA(pem string) (*x509.CertPool, error) {
	if pem == "" {
		return nil, nil
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("load the system's certificates: %w", err)
	}
	if !roots.AppendCertsFromPEM([]byte(pem)) {
		return nil, fmt.Errorf("the location's CA certificate (caCert or caCertRef) has no certificate in it, want PEM")
	}
	return roots, nil
}

func checkEncryption(algorithm, kmsKey string) (types.ServerSideEncryption, error) {
	if algorithm == "" && kmsKey != "" {
		return types.ServerSideEncryptionAwsKms, nil
	}
	known := types.ServerSideEncryption("").Values()
	if algorithm != "" && !slices.Contains(known, types.ServerSideEncryption(algorithm)) {
		return "", fmt.Errorf("config.serverSideEncryption is %q, want one of %v", algorithm, known)
	}
	return types.ServerSideEncryption(algorithm), nil
}

// checkChecksum returns the checksum algorithm, CRC32 by default. An empty value is for servers without checksums.
func checkChecksum(config map[string]string) (tmtypes.ChecksumAlgorithm, error) {
	text, set := config["checksumAlgorithm"]
	if !set {
		return tmtypes.ChecksumAlgorithmCrc32, nil
	}
	known := types.ChecksumAlgorithm("").Values()
	if text != "" && !slices.Contains(known, types.ChecksumAlgorithm(text)) {
		return "", fmt.Errorf("config.checksumAlgorithm is %q, want one of %v, or \"\" for none", text, known)
	}
	return tmtypes.ChecksumAlgorithm(text), nil
}
