package debug

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
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
			got := redactText(row.text)
			require.NotContains(t, got, "S3CRET")
			if row.want == "" {
				row.want = row.text
			}
			require.Equal(t, row.want, got)
			require.Equal(t, got, redactText(got), "again")
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
	left, err := yaml.Marshal(redactTree(tree))
	require.NoError(t, err)
	require.NotContains(t, string(left), "S3CRET")
	for _, kept := range []string{"note: plain", "region: r", "secretName: cloud-credentials", "- --region\n", "- r\n",
		"- --client-secret\n", `empty: ""`, "pg_dump", "automountServiceAccountToken: false", "@h"} {
		require.Contains(t, string(left), kept)
	}
}

func TestPodsLoseTheValuesOfVariablesAndHeaders(t *testing.T) {
	t.Parallel()
	variables := func() []corev1.EnvVar { return []corev1.EnvVar{{Name: "PLAIN", Value: "S3CRET"}} }
	get := func() *corev1.HTTPGetAction {
		return &corev1.HTTPGetAction{Path: "/healthz", HTTPHeaders: []corev1.HTTPHeader{{Name: "X-Any", Value: "S3CRET"}}}
	}
	probe := func() *corev1.Probe { return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: get()}} }
	container := func() corev1.Container {
		return corev1.Container{
			Env: variables(), LivenessProbe: probe(), ReadinessProbe: probe(), StartupProbe: probe(),
			Lifecycle: &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{HTTPGet: get()},
				PreStop: &corev1.LifecycleHandler{HTTPGet: get()}},
		}
	}
	spec := corev1.PodSpec{
		InitContainers: []corev1.Container{container()}, Containers: []corev1.Container{container()},
		EphemeralContainers: []corev1.EphemeralContainer{
			{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Env: variables()}},
		},
	}
	redactPod(&spec)
	left, err := yaml.Marshal(spec)
	require.NoError(t, err)
	require.NotContains(t, string(left), "S3CRET")
	require.Equal(t, 3, strings.Count(string(left), "PLAIN"))
	require.Contains(t, string(left), "/healthz")
}
