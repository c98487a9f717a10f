package redact_test

import (
	"encoding/json"
	"strings"
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
		"a port":            {"GET https://h:443/a@b", ""},
		"words":             {"the token of the password file: basic tests passed", ""},
		"an age key":        {"age -i AGE-SECRET-KEY-1S3CRET x", "age -i (left-out) x"},
		"an age plugin":     {"AGE-PLUGIN-YUBIKEY-1S3CRET", "(left-out)"},
		"a key of AWS":      {"key AKIAS3CRETS3CRETS3CRET x", "key (left-out)ET x"},
		"a key of GPG": {"-----BEGIN PGP PRIVATE KEY BLOCK-----\nS3CRET",
			"-----BEGIN PGP PRIVATE KEY BLOCK-----(left-out)"},
		"a key in base64":  {"key: LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVktLS0tLQS3CRET== x", "key: (left-out) x"},
		"a hash":           {"root:$6$S3CRET$S3CRET/x.y:1", "root:(left-out):1"},
		"an encrypted JWT": {"eyJhbGciOiJS3CRET..S3CRET.S3CRET.S3CRET", "(left-out)"},
		"a slash in one":   {"postgres://u:S3/C?RET@h/d", "postgres://(left-out)@h/d"},
		"a DSN":            {"app:S3CRET@tcp(db:3306)/x", "app:(left-out)@tcp(db:3306)/x"},
		"another scheme": {"Authorization: AWS4-HMAC-SHA256 Credential=S3CRET, Signature=S3CRET",
			"Authorization: (left-out)"},
		"any header":   {`curl -H "X-Vault-Token: S3CRET" h`, `curl -H "X-Vault-Token: (left-out)" h`},
		"cookies":      {"Cookie: a=S3CRET; b=S3CRET\nnext", "Cookie: (left-out)\nnext"},
		"basic":        {"auth basic dXNlcjpTM0NSRVQ=", "auth basic (left-out)"},
		"-p":           {"mysqldump -u root -p S3CRET db", "mysqldump -u root -p (left-out) db"},
		"-p, attached": {"mysqldump -uroot -pS3CRET db", "mysqldump -uroot -p(left-out) db"},
		"-p, quoted":   {"mysqldump -p'S3 CRET' db", "mysqldump -p(left-out) db"},
		"-p of a list": {`["mongodump","-p","S3CRET x"]`, `["mongodump","-p","(left-out)"]`},
		"-p in Go":     {"[mysqldump -pS3CRET]", "[mysqldump -p(left-out)"},
		"-u":           {"curl -u user:S3CRET https://h", "curl -u user:(left-out) https://h"},
		"-u, quoted":   {`curl --user 'user:S3 CRET' h`, `curl --user 'user:(left-out)' h`},
		"-u of a list": {`["curl","-u","user:S3,C RET"]`, `["curl","-u","user:(left-out)"]`},
		"-u, a user":   {"psql -U postgres -u https://h/x", ""},
		"--proxy-user": {"curl --proxy-user=u:S3CRET h", "curl --proxy-user=u:(left-out) h"},
		"--pass":       {"redis-cli --pass S3CRET ping", "redis-cli --pass (left-out) ping"},
		"-a of redis":  {"redis-cli -h h -a S3CRET ping", "redis-cli -h h -a (left-out) ping"},
		"-a of others": {"uname -a x", ""},
		"-w of LDAP":   {"ldapsearch -x -w S3CRET", "ldapsearch -x -w (left-out)"},
		"openssl":      {"openssl rsa -passin pass:S3CRET", "openssl rsa -p(left-out) pass:(left-out)"},
		"a literal": {"create secret generic x --from-literal=a=S3CRET",
			"create secret generic x --from-literal=a=(left-out)"},
		"SQL":              {"ALTER USER a IDENTIFIED BY 'S3CRET'", "ALTER USER a IDENTIFIED BY '(left-out)'"},
		"MYSQL_PWD":        {"MYSQL_PWD=S3,CRET mysql", "MYSQL_PWD=(left-out) mysql"},
		"DB_PASS":          {`DB_PASS="S3;CRET" x`, "DB_PASS=(left-out) x"},
		"quoted in JSON":   {`{"a":"PGPASSWORD=\"S3 CRET\" x"}`, `{"a":"PGPASSWORD=(left-out) x"}`},
		"a quote in JSON":  {`{"password":"S3\"S3CRET"}`, `{"password":"(left-out)"}`},
		"a number in JSON": {`{"password":12345,"n":1}`, `{"password":(left-out),"n":1}`},
		"YAML":             {"a: b\nadmin-password: S3CRET x\nc: d", "a: b\nadmin-password: (left-out)\nc: d"},
		"an open quote":    {`--password "S3 CRET`, `--password (left-out)`},
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
spec:
  config: {region: r, accessKey: S3CRET, s3Url: "https://u:S3CRET@h", empty: ""}
  specHooks: {resources: [{pre: [{exec: {command: [sh, -c, "PGPASSWORD=S3CRET pg_dump"]}}]}]}
  containers:
  - {args: [server, --client-secret, S3CRET, --token=S3CRET, --region, r, --password], command: [x]}
  volumes: [{secret: {secretName: cloud-credentials}}]
  automountServiceAccountToken: false
  tokens: [S3CRET, S3CRET]
  pin: {password: 53}
  hooks:
    commands: [[mysqldump, -u, root, -p, S3CRET], [mysqldump, -pS3CRET], [curl, -u, "user:S3 CRET"],
      [curl, --user, "u:S3CRET", https://host/kept], [redis-cli, -h, h, -a, S3CRET],
      [sh, -c, "curl -u user:S3CRET https://h && age -i AGE-SECRET-KEY-1S3CRET"], [smbclient, -U, "u%S3CRET"],
      [kubectl, --from-literal, "a=S3CRET"]]
    initContainers:
    - {name: own, env: [{name: PLAIN, value: S3CRET}], command: [x, "--token=S3CRET"]}
    headers: [{name: X-Api-Key, value: S3CRET}, {name: X-Plain, value: stays}]
  httpHeaders: [{name: X-Any, value: S3CRET}]
  status: {downloadURL: "https://h/S3CRET"}
  planted: {kind: Secret, data: {any: S3CRET}, stringData: {any: S3CRET}}
metadata:
  annotations:
    pre.hook.backup.velero.io/command: '["mysqldump", "-p", "S3CRET", "-u", "root"]'
    post.hook.backup.velero.io/command: '["/bin/sh", "-c", "mysql -p''S3 CRET'' < x"]'
    vault-token: S3CRET
    note: plain
    object: '{"env": [{"name": "PLAIN", "value": "S3CRET"}], "kept": 1}'
    text: "a: b\npassword: |\n  S3CRET\n  S3CRET\n"
    identity: "# created\nAGE-SECRET-KEY-1S3CRET\n"
`), &tree))
	left, err := yaml.Marshal(redact.Tree(tree))
	require.NoError(t, err)
	require.NotContains(t, string(left), "S3CRET")
	for _, kept := range []string{"note: plain", "region: r", "secretName: cloud-credentials", "- --region\n", "- r\n",
		"- --client-secret\n", `empty: ""`, "pg_dump", "automountServiceAccountToken: false", "@h",
		"value: stays", `"mysqldump","-p","(left-out)","-u","root"`, `"kept":1`, "https://host/kept", "PLAIN"} {
		require.Contains(t, string(left), kept)
	}
}

// shapes are secrets as people write them. The mark is a part of each that must not stay.
const mark = "S3CRET0000000000"

var shapes = []string{
	"AGE-SECRET-KEY-1" + mark, "-----BEGIN PRIVATE KEY-----\n" + mark + "\n-----END PRIVATE KEY-----",
	"-----BEGIN OPENSSH PRIVATE KEY-----\n" + mark, "AKIA" + mark, "eyJhbGciOi." + mark + "." + mark, "ghp_0000" + mark,
	"github_pat_0000" + mark, "glpat-0000" + mark, "xoxb-" + mark, "hvs.0000" + mark, "$2y$10$" + mark,
	"https://user:" + mark + "@host/path", "LS0tLS1CRUdJTiBFQyBQUklWQVRFIEtFWS0tLS0t" + mark,
	" Authorization: Bearer " + mark, " bearer " + mark, " --password=" + mark, " --password " + mark, " -p " + mark,
	" -p" + mark, " -u user:" + mark, " --user=user:" + mark, " PGPASSWORD=" + mark, ` "password": "` + mark + `"`,
	` ["-u","user:` + mark + `"]`,
	` ["--api-key","` + mark + `"]`, `{"args":["-p","` + mark + `"]}`, " X-Api-Key: " + mark, " redis-cli -a " + mark,
	" --from-literal=a=" + mark,
}

// FuzzShapes has secrets between any other text: they never stay, and leaving them out twice changes nothing.
func FuzzShapes(f *testing.F) {
	for i := range shapes {
		f.Add("the command was", " and more", uint(i))
		f.Add(`{"command": "sh -c '`, `'"}`, uint(i))
		f.Add(`[\"--password`, `"--token"`, uint(i))
		f.Add("-----BEGIN CERTIFICATE-----\nx\nkey=", "\n-p", uint(i))
	}
	f.Fuzz(func(t *testing.T, before, after string, n uint) {
		if strings.Contains(before+after, mark) {
			return
		}
		shape := shapes[n%uint(len(shapes))]
		text := before + shape + after
		left := redact.Text(text)
		require.NotContains(t, left, mark, "%q", text)
		for _, tree := range []any{text, []any{before, text, after}, map[string]any{"a": text}, []any{before, shape}} {
			encoded, err := json.Marshal(redact.Tree(tree))
			require.NoError(t, err)
			require.NotContains(t, string(encoded), mark, "%q", text)
		}
	})
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
		"arguments":    {`{"args": ["curl", "-u", "u:S3CRET", 1]}`, "", `{"args": ["curl", "-u", "u:(left-out)", 1]}`},
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
