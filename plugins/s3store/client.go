package s3store

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// clients returns the client for all calls and the client that signs URLs. It does not use the network.
func clients(ctx context.Context, s settings) (calls, signs *s3.Client, err error) {
	cfg, err := awsConfig(ctx, s)
	if err != nil {
		return nil, nil, err
	}
	calls = client(cfg, s, s.endpoint)
	return calls, client(cfg, s, cmp.Or(s.publicEndpoint, s.endpoint)), nil
}

func client(cfg aws.Config, s settings, endpoint string) *s3.Client {
	return s3.NewFromConfig(cfg, func(o *s3.Options) {
		o.UsePathStyle = s.pathStyle
		o.DisableLogOutputChecksumValidationSkipped = true // multipart objects have no checksum of the whole
		if endpoint != "" {
			o.BaseEndpoint = aws.String(endpoint)
		}
	})
}

func awsConfig(ctx context.Context, s settings) (aws.Config, error) {
	options := []func(*config.LoadOptions) error{
		config.WithHTTPClient(awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
			t.TLSClientConfig = &tls.Config{
				MinVersion:         tls.VersionTLS12,
				RootCAs:            s.roots,
				InsecureSkipVerify: s.insecure, // the user requests it with insecureSkipTLSVerify
			}
		})),
		config.WithRequestChecksumCalculation(s.checksumCalculation()),
	}
	if s.checksum == "" {
		options = append(options, config.WithResponseChecksumValidation(aws.ResponseChecksumValidationWhenRequired))
	}
	if s.region != "" {
		options = append(options, config.WithRegion(s.region))
	}
	switch profile := cmp.Or(s.profile, "default"); {
	case s.credentialsFile != "":
		if err := checkProfile(ctx, s.credentialsFile, profile); err != nil {
			return aws.Config{}, err
		}
		options = append(options,
			config.WithSharedCredentialsFiles([]string{s.credentialsFile}),
			config.WithSharedConfigFiles([]string{s.credentialsFile}),
			config.WithSharedConfigProfile(profile)) // named, so that it takes precedence over the environment
	case s.profile != "":
		options = append(options, config.WithSharedConfigProfile(s.profile))
	}
	cfg, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return aws.Config{}, fmt.Errorf("load the AWS configuration: %w", err)
	}
	if cfg.Region == "" {
		if s.endpoint == "" {
			return aws.Config{}, fmt.Errorf("config.region is missing: want the region of the bucket, like eu-central-1")
		}
		cfg.Region = "us-east-1" // the region that servers other than Amazon's expect
	}
	return cfg, nil
}

// checkProfile detects a missing file, or one without keys, before the first request to S3.
func checkProfile(ctx context.Context, file, profile string) error {
	const want = "want an AWS ini file with [%s], aws_access_key_id and aws_secret_access_key in the Secret of spec.credential"
	shared, err := config.LoadSharedConfigProfile(ctx, profile, func(o *config.LoadSharedConfigOptions) {
		o.CredentialsFiles = []string{file}
		o.ConfigFiles = []string{file}
	})
	if err != nil {
		return fmt.Errorf("read the profile %q of the credentials file: %w; "+want, profile, err, profile)
	}
	if !shared.Credentials.HasKeys() && shared.RoleARN == "" && shared.CredentialProcess == "" && shared.SSOSessionName == "" {
		return fmt.Errorf("the profile %q of the credentials file has no keys; "+want, profile, profile)
	}
	return nil
}

// checksumCalculation applies to all requests that carry a body.
func (s settings) checksumCalculation() aws.RequestChecksumCalculation {
	if s.checksum == "" {
		return aws.RequestChecksumCalculationWhenRequired
	}
	return aws.RequestChecksumCalculationWhenSupported
}
