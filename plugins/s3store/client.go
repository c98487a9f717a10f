package s3store

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// clients returns the client for all calls and the client that signs URLs. It does not use the network.
func clients(ctx context.Context, c Config) (calls, signs *s3.Client, err error) {
	cfg, err := awsConfig(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	return client(cfg, c, c.S3URL), client(cfg, c, cmp.Or(c.PublicURL, c.S3URL)), nil
}

func client(cfg aws.Config, c Config, endpoint string) *s3.Client {
	return s3.NewFromConfig(cfg, func(o *s3.Options) {
		o.UsePathStyle = c.S3ForcePathStyle
		o.DisableLogOutputChecksumValidationSkipped = true // multipart objects have no checksum of the whole
		if endpoint != "" {
			o.BaseEndpoint = aws.String(endpoint)
		}
	})
}

// Credentials returns the credentials of a location, which renew themselves before they expire, and its region. It is for
// plugins that reach S3 by a client of their own.
func Credentials(ctx context.Context, c Config) (aws.CredentialsProvider, string, error) {
	cfg, err := awsConfig(ctx, c)
	return cfg.Credentials, cfg.Region, err
}

func awsConfig(ctx context.Context, c Config) (aws.Config, error) {
	roots, err := c.roots()
	if err != nil {
		return aws.Config{}, err
	}
	options := []func(*config.LoadOptions) error{
		config.WithHTTPClient(awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
			t.MaxIdleConnsPerHost = t.MaxIdleConns // the server has one host, and more than the default of 10 requests at once
			t.TLSClientConfig = &tls.Config{
				MinVersion:         tls.VersionTLS12,
				RootCAs:            roots,
				InsecureSkipVerify: c.InsecureSkipTLSVerify, // the user requests it with insecureSkipTLSVerify
			}
		})),
		// Without a limit of its own on all retries: after an outage it would fail calls at their first failure. The host
		// knows how long to wait.
		config.WithRetryer(func() aws.Retryer {
			return retry.NewStandard(func(o *retry.StandardOptions) { o.RateLimiter = ratelimit.None })
		}),
		config.WithRequestChecksumCalculation(c.checksumCalculation()),
	}
	if c.ChecksumAlgorithm == "" {
		options = append(options, config.WithResponseChecksumValidation(aws.ResponseChecksumValidationWhenRequired))
	}
	if c.Region != "" {
		options = append(options, config.WithRegion(c.Region))
	}
	switch profile := cmp.Or(c.Profile, "default"); {
	case c.CredentialsFile != "":
		if err := checkProfile(ctx, c.CredentialsFile, profile); err != nil {
			return aws.Config{}, err
		}
		options = append(options,
			config.WithSharedCredentialsFiles([]string{c.CredentialsFile}),
			config.WithSharedConfigFiles([]string{c.CredentialsFile}),
			config.WithSharedConfigProfile(profile)) // named, so that it takes precedence over the environment
	case c.Profile != "":
		options = append(options, config.WithSharedConfigProfile(c.Profile))
	}
	cfg, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return aws.Config{}, fmt.Errorf("load the AWS configuration: %w", err)
	}
	if cfg.Region == "" {
		if c.S3URL == "" {
			return aws.Config{}, fmt.Errorf("config.region is missing: want the region of the bucket, like eu-central-1")
		}
		cfg.Region = "us-east-1" // the region that servers other than Amazon's expect
	}
	return cfg, nil
}

// checkProfile detects a missing file, or one without keys, before the first request to S3.
func checkProfile(ctx context.Context, file, profile string) error {
	const want = "want an AWS ini file with [%s], aws_access_key_id and aws_secret_access_key in the Secret of " +
		"spec.credential"
	shared, err := config.LoadSharedConfigProfile(ctx, profile, func(o *config.LoadSharedConfigOptions) {
		o.CredentialsFiles = []string{file}
		o.ConfigFiles = []string{file}
	})
	if err != nil {
		return fmt.Errorf("read the profile %q of the credentials file: %w; "+want, profile, err, profile)
	}
	if !shared.Credentials.HasKeys() && shared.RoleARN == "" && shared.CredentialProcess == "" &&
		shared.SSOSessionName == "" {
		return fmt.Errorf("the profile %q of the credentials file has no keys; "+want, profile, profile)
	}
	return nil
}

// checksumCalculation applies to all requests that carry a body.
func (c Config) checksumCalculation() aws.RequestChecksumCalculation {
	if c.ChecksumAlgorithm == "" {
		return aws.RequestChecksumCalculationWhenRequired
	}
	return aws.RequestChecksumCalculationWhenSupported
}
