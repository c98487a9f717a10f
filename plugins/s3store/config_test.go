package s3store_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework/plugintest"
	"github.com/cleat-dev/cleat/plugins/s3store"
	wirev1 "github.com/cleat-dev/cleat/proto/velero/objectstore/v1"
)

func credentials(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "credentials")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestConfigIsValidated(t *testing.T) {
	t.Parallel()
	good := credentials(t, "[default]\naws_access_key_id=a\naws_secret_access_key=b\n[other]\nregion=x\n")
	for name, test := range map[string]struct {
		config map[string]string
		want   string
	}{
		"as the host gives it": {config: map[string]string{"region": "eu-central-1", "bucket": "b", "prefix": "",
			"caCert": "", "credentialsFile": good}},
		"everything": {config: map[string]string{
			"region": "x", "s3Url": "https://s3.test:9000", "publicUrl": "http://public.test", "s3ForcePathStyle": "true",
			"insecureSkipTLSVerify": "true", "profile": "default", "checksumAlgorithm": "", "serverSideEncryption": "AES256",
			"kmsKeyId":        "k",
			"credentialsFile": good,
		}},
		"own server without region": {config: map[string]string{"s3Url": "http://s3.test", "credentialsFile": good}},
		"unknown key": {
			config: map[string]string{"s3URL": "http://s3.test"},
			want: `unknown key "s3URL", want one of caCert, checksumAlgorithm, credentialsFile, insecureSkipTLSVerify, kmsKeyId, objectLockFor, objectLockMode, profile, publicUrl, ` +
				`region, s3ForcePathStyle, s3Url, serverSideEncryption`,
		},
		"URL without scheme": {config: map[string]string{"s3Url": "s3.test:9000"},
			want: `config: s3Url: it is "s3.test:9000", want a URL like`},
		"URL of another scheme": {config: map[string]string{"publicUrl": "ftp://s3.test"}, want: "config: publicUrl: it is"},
		"not a bool": {config: map[string]string{"s3ForcePathStyle": "yes"},
			want: `config: s3ForcePathStyle: "yes", want "true" or "false"`},
		"no bool":        {config: map[string]string{"s3ForcePathStyle": "", "region": "x", "credentialsFile": good}},
		"CA without PEM": {config: map[string]string{"caCert": "MIID"}, want: "want PEM"},
		"encryption": {config: map[string]string{"serverSideEncryption": "ROT13"},
			want: `config: serverSideEncryption: it is "ROT13", want one of [AES256`},
		"checksum": {config: map[string]string{"checksumAlgorithm": "MD4"},
			want: `config: checksumAlgorithm: it is "MD4", want one of [CRC32`},
		"lock": {config: map[string]string{"region": "x", "objectLockMode": "compliance", "objectLockFor": "720h",
			"credentialsFile": good}},
		"mode of locks": {config: map[string]string{"objectLockMode": "FOREVER"},
			want: `config: objectLockMode: it is "FOREVER", want one of [GOVERNANCE COMPLIANCE]`},
		"time without lock": {config: map[string]string{"objectLockFor": "720h"},
			want: "config: objectLockFor: it has no effect without objectLockMode"},
		"time of locks": {config: map[string]string{"objectLockMode": "GOVERNANCE", "objectLockFor": "30 days"},
			want: `unknown unit " days" in duration "30 days"`},
		"missing file": {config: map[string]string{"region": "x", "credentialsFile": "/nowhere/file"},
			want: "want an AWS ini file"},
		"missing profile": {config: map[string]string{"region": "x", "credentialsFile": good, "profile": "prod"},
			want: `profile "prod"`},
		"profile without keys": {config: map[string]string{"region": "x", "credentialsFile": good, "profile": "other"},
			want: `profile "other" of the credentials file has no keys`},
		"not an ini file": {config: map[string]string{"region": "x", "credentialsFile": credentials(t, `{"key":"x"}`)},
			want: "want an AWS ini file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plugin := plugintest.Run(t, s3store.Register())
			_, err := wirev1.NewObjectStoreClient(plugin.Conn()).Init(t.Context(),
				&wirev1.ObjectStoreInitRequest{Plugin: s3store.Name, Config: test.config})
			if test.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, test.want)
		})
	}
}

func TestAmazonRequiresRegion(t *testing.T) {
	t.Setenv("AWS_REGION", "")
	t.Setenv("AWS_DEFAULT_REGION", "")
	t.Setenv("AWS_CONFIG_FILE", "/nowhere")
	_, err := s3store.New(t.Context(), s3store.Config{
		CredentialsFile: credentials(t, "[default]\naws_access_key_id=a\naws_secret_access_key=b\n"),
	})
	require.ErrorContains(t, err, "config.region is missing")
}

func TestSchemaDescribesEveryKey(t *testing.T) {
	t.Parallel()
	var schema struct {
		Properties map[string]struct {
			Type, Description string
			Default           any
		}
		AdditionalProperties any
	}
	registered := plugintest.Run(t, s3store.Register()).Registered()
	require.Len(t, registered, 1)
	require.NoError(t, json.Unmarshal([]byte(registered[0].ConfigSchema), &schema))
	require.Equal(t, false, schema.AdditionalProperties)
	require.Len(t, schema.Properties, 13)
	for key, property := range schema.Properties {
		require.NotEmpty(t, property.Description, key)
	}
	require.Equal(t, "boolean", schema.Properties["s3ForcePathStyle"].Type)
	require.Equal(t, "CRC32", schema.Properties["checksumAlgorithm"].Default)
}
