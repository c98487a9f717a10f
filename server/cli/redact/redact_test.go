package redact_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/cleat-dev/cleat/server/cli/redact"
)

func TestTextsLoseWhatLooksLikeASecret(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ text, want string }{
		"nothing":            {"restored configmaps/shop/a in 3s", ""},
		"a URL":              {"PUT https://s3.example.com/bucket/key?versionId=1", ""},
		"names only":         {`secrets "cloud-credentials" not found`, ""},
		"a file of secrets":  {"secretName: cloud-credentials", ""},
		"credentials in URL": {"GET https://user:S3CRET@example.com/a", "GET https://(left-out)@example.com/a"},
		"an @ in a password": {"https://u:S3@CRET:S3CRET@h/a@b", "https://(left-out)@h/a@b"},
		"a user in a URL":    {"s3://S3CRET@host", "s3://(left-out)@host"},
		"a signed URL": {"https://h/x?X-Amz-Credential=S3CRET&X-Amz-Date=1&X-Amz-Signature=S3CRET",
			"https://h/x?X-Amz-Credential=(left-out)&X-Amz-Date=1&X-Amz-Signature=(left-out)"},
		"a shared access URL": {"https://h/x?sv=1&sig=S3CRET%3D", "https://h/x?sv=1&sig=(left-out)"},
		"a link with a token": {"https://h/download/x?token=S3CRET", "https://h/download/x?token=(left-out)"},
		"a flag":              {"run --password=S3CRET --region=r", "run --password=(left-out) --region=r"},
		"a flag, quoted":      {`run --api-key="S3 CRET" x`, `run --api-key=(left-out) x`},
		"a flag, apart":       {"mysqldump --password S3CRET db", "mysqldump --password (left-out) db"},
		"a variable":          {"AWS_SECRET_ACCESS_KEY=S3CRET aws s3 ls", "AWS_SECRET_ACCESS_KEY=(left-out) aws s3 ls"},
		"JSON":                {`{"user":"u","password":"S3CRET"}`, `{"user":"u","password":"(left-out)"}`},
		"JSON in JSON":        {`"{\"clientSecret\":\"S3CRET\"}"`, `"{\"clientSecret\":\"(left-out)\"}"`},
		"a header":            {"Authorization: Bearer S3CRET", "Authorization: Bearer (left-out)"},
		"another header":      {"authorization=Basic S3CRET==", "authorization=Basic (left-out)"},
		"a bearer":            {"curl -H bearer S3CRET.x", "curl -H bearer (left-out)"},
		"a web token":         {"saw eyJhbGciOiJS3CRET.eyJzdWIiOiJS3CRET.S3CRET-x", "saw (left-out)"},
		"a key": {"-----BEGIN RSA PRIVATE KEY-----\nS3CRET\n-----END RSA PRIVATE KEY-----\nrest",
			"-----BEGIN RSA PRIVATE KEY-----(left-out)-----END RSA PRIVATE KEY-----\nrest"},
		"a key that is cut": {"-----BEGIN PRIVATE KEY-----\nS3CRET", "-----BEGIN PRIVATE KEY-----(left-out)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := redact.Text(row.text)
			require.NotContains(t, got, "S3CRET")
			if row.want == "" {
				row.want = row.text
			}
			require.Equal(t, row.want, got)
			require.Equal(t, got, redact.Text(got), "again")
		})
	}
}

func TestObjectsLoseWhatLooksLikeASecret(t *testing.T) {
	t.Parallel()
	var tree any
	require.NoError(t, yaml.Unmarshal([]byte(`
metadata: {name: a, annotations: {vault-token: S3CRET, note: plain}}
spec:
  config: {region: r, accessKey: S3CRET, s3Url: "https://u:S3CRET@h", empty: ""}
  hooks: {resources: [{pre: [{exec: {command: [sh, -c, "PGPASSWORD=S3CRET pg_dump"]}}]}]}
  containers:
  - {args: [server, --client-secret, S3CRET, --token=S3CRET, --region, r, --password], command: [x]}
  volumes: [{secret: {secretName: cloud-credentials}}]
  automountServiceAccountToken: false
`), &tree))
	left, err := yaml.Marshal(redact.Tree(tree))
	require.NoError(t, err)
	require.NotContains(t, string(left), "S3CRET")
	for _, kept := range []string{"note: plain", "region: r", "secretName: cloud-credentials", "- --region\n", "- r\n",
		"- --client-secret\n", `empty: ""`, "pg_dump", "automountServiceAccountToken: false", "@h"} {
		require.Contains(t, string(left), kept)
	}
}

// FuzzConfig redacts any configuration by any schema: the rest is a configuration.
func FuzzConfig(f *testing.F) {
	f.Add(`{"a": [{"password": "x"}], "b": {"c": "https://u:p@h"}}`,
		`{"properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"items": {"writeOnly": true}}}}`)
	f.Add(`{"a": {"a": 1}}`, `{"$ref": "#", "properties": {"a": {"allOf": [{"$ref": "#/properties/a"}]}}}`)
	f.Fuzz(func(t *testing.T, config, schema string) {
		var value any
		if json.Unmarshal([]byte(config), &value) != nil {
			return
		}
		_, err := json.Marshal(redact.Config(value, json.RawMessage(schema)))
		require.NoError(t, err)
	})
}

// TestConfigsLoseSecrets has secrets by the schema, by their names, and within texts.
func TestConfigsLoseSecrets(t *testing.T) {
	t.Parallel()
	const schema = `{"properties": {"pin": {"writeOnly": true}, "door": {"$ref": "#/$defs/door~1x"},
		"doors": {"items": {"$ref": "#/$defs/door~1x"}}, "by": {"additionalProperties": {"format": "password"}},
		"either": {"anyOf": [{"type": "integer"}, {"type": "string", "format": "password"}]},
		"self": {"$ref": "#/properties/self"}}, "$defs": {"door/x": {"properties": {"code": {"format": "password"}}}}}`
	for name, row := range map[string]struct{ config, schema, want string }{
		"write-only":   {`{"pin": 1234, "age": 5}`, schema, `{"pin": "(left-out)", "age": 5}`},
		"a reference":  {`{"door": {"code": "S3CRET", "at": "x"}}`, schema, `{"door": {"code": "(left-out)", "at": "x"}}`},
		"in a list":    {`{"doors": [{"code": ["S3CRET"]}, 1]}`, schema, `{"doors": [{"code": "(left-out)"}, 1]}`},
		"any name":     {`{"by": {"a": "S3CRET", "b": ""}}`, schema, `{"by": {"a": "(left-out)", "b": ""}}`},
		"one of some":  {`{"either": "S3CRET"}`, schema, `{"either": "(left-out)"}`},
		"a circle":     {`{"self": {"a": 1}}`, schema, `{"self": {"a": 1}}`},
		"by its name":  {`{"password": "S3CRET", "token": null}`, "", `{"password": "(left-out)", "token": null}`},
		"all below":    {`{"credentials": {"user": "S3CRET"}}`, "{", `{"credentials": "(left-out)"}`},
		"within texts": {`{"url": "https://u:S3CRET@h"}`, "", `{"url": "https://(left-out)@h"}`},
		"a number":     {`3`, schema, `3`},
	} {
		var config any
		require.NoError(t, json.Unmarshal([]byte(row.config), &config), name)
		left, err := json.Marshal(redact.Config(config, json.RawMessage(row.schema)))
		require.NoError(t, err)
		require.JSONEq(t, row.want, string(left), name)
		require.NotContains(t, string(left), "S3CRET")
	}
}
