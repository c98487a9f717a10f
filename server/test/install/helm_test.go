package install_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cleat-dev/cleat/server/internal/setup/install/monitoring"
	"github.com/cleat-dev/cleat/server/test/programs"
	"github.com/cleat-dev/cleat/server/test/site"
)

// TestAcceptInstall_Helm renders the chart with Helm's library, compares it with the objects of "cleat install" for
// the same settings, and lets the API server validate it strictly.
func TestAcceptInstall_Helm(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	helm, err := programs.BuildModule("server/test/helm")
	require.NoError(t, err)
	chart := filepath.Join(t.TempDir(), "chart")
	s.Must("install", "--helm", chart, "--image", "registry.example.io/cleat:v1")
	_, note, err := s.Run("install", "--helm", chart)
	require.Error(t, err)
	require.Contains(t, note, "is not empty")

	secret := filepath.Join(t.TempDir(), "credentials")
	require.NoError(t, os.WriteFile(secret, []byte("[default]\n"), 0o600))
	affinity := filepath.Join(t.TempDir(), "affinity.yaml")
	require.NoError(t, os.WriteFile(affinity, []byte("podAffinity: {}\n"), 0o600))
	shop, blog := s.Workload(0), s.Workload(0)
	render := func(values string) map[string]*unstructured.Unstructured {
		file := filepath.Join(t.TempDir(), "values.yaml")
		require.NoError(t, os.WriteFile(file, []byte(values), 0o600))
		var errs bytes.Buffer
		cmd := exec.CommandContext(t.Context(), helm, "-namespace", s.Namespace, "-values", file, chart)
		cmd.Stderr = &errs
		out, err := cmd.Output()
		require.NoError(t, err, errs.String())
		return site.ByName(t, bytes.NewReader(out))
	}
	for name, tt := range map[string]struct {
		flags  []string
		values string
	}{
		"the least": {
			[]string{"--no-default-backup-location", "--no-secret"},
			"credentials: {useSecret: false}\n",
		},
		"everything": {
			[]string{
				"--provider", "aws", "--bucket", "b", "--prefix", "p", "--secret-file", secret, "--cacert", secret,
				"--backup-location-config", "region=r,s3Url=https://s3.example.io", "--snapshot-location-config", "region=r",
				"--plugins", "velero/velero-plugin-for-aws:v1.13.0", "--node-selector", "disk=ssd", "--tolerations",
				"dedicated=backup:NoSchedule",
				"--affinity-file", affinity, "--server-priority-class-name", "system-cluster-critical", "--pod-labels", "team=ops",
				"--pod-annotations", "a=b", "--sa-annotations", "iam=x", "--velero-pod-cpu-limit", "2", "--image-pull-secrets",
				"pull",
				"--concurrent-backups", "2", "--features", "EnableCSI,EnableAPIGroupVersions", "--client-qps", "12.5",
				"--leader-elect=false",
				"--default-backup-ttl", "240h0m0s", "--backup-sync-period", "1m0s",
				"--use-node-agent", "--node-agent-configmap", "agents", "--data-mover-prepare-timeout", "1h0m0s",
				"--kubelet-root-dir", "/data/kubelet",
				"--node-agent-plugins", "registry.example.io/mover:v1", "--privileged-node-agent", "--node-agent-pod-cpu-request",
				"1",
				"--node-agent-priority-class-name", "system-node-critical", "--log-format", "json",
				"--use-console", "--console-hosts", "console.example.com,console:8443", "--console-tls-secret", "console",
			},
			`image: {imagePullSecrets: [pull]}
configuration:
  backupStorageLocation:
  - {name: default, provider: aws, bucket: b, prefix: p, default: true, caCert: W2RlZmF1bHRdCg==, config: {region: r, s3Url: https://s3.example.io}}
  volumeSnapshotLocation:
  - {name: default, provider: aws, config: {region: r}}
  concurrentBackups: 2
  features: EnableCSI,EnableAPIGroupVersions
  clientQPS: 12.5
  leaderElect: false
  defaultBackupTTL: 240h0m0s
  backupSyncPeriod: 1m0s
  nodeAgentConfigmap: agents
  dataMoverPrepareTimeout: 1h0m0s
  logFormat: json
console: {enabled: true, hosts: [console.example.com, "console:8443"], tlsSecret: console}
deployNodeAgent: true
nodeAgent:
  podVolumePath: /data/kubelet/pods
  pluginVolumePath: /data/kubelet/plugins
  initContainers:
  - name: registry-example-io-mover
    image: registry.example.io/mover:v1
    imagePullPolicy: IfNotPresent
    resources: {}
    volumeMounts: [{mountPath: /target, name: plugins}]
    securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL], add: [CHOWN, DAC_OVERRIDE, FOWNER]}, seccompProfile: {type: RuntimeDefault}}
  containerSecurityContext: {privileged: true, allowPrivilegeEscalation: null, capabilities: null, appArmorProfile: null}
  resources: {requests: {cpu: "1"}}
  priorityClassName: system-node-critical
  tolerations: [{key: dedicated, operator: Equal, value: backup, effect: NoSchedule}]
  podLabels: {team: ops}
credentials:
  secretContents: {cloud: "[default]\n"}
initContainers:
- name: velero-velero-plugin-for-aws
  image: velero/velero-plugin-for-aws:v1.13.0
  imagePullPolicy: IfNotPresent
  resources: {}
  volumeMounts: [{mountPath: /target, name: plugins}]
  securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL], add: [CHOWN, DAC_OVERRIDE, FOWNER]}, seccompProfile: {type: RuntimeDefault}}
nodeSelector: {disk: ssd}
tolerations: [{key: dedicated, operator: Equal, value: backup, effect: NoSchedule}]
affinity: {nodeAffinity: null, podAffinity: {}}
priorityClassName: system-cluster-critical
podLabels: {team: ops}
podAnnotations: {a: b}
serviceAccount: {server: {annotations: {iam: x}}}
resources: {limits: {cpu: "2"}}
`,
		},
		"least privilege": {
			[]string{"--no-default-backup-location", "--no-secret", "--rbac", "least", "--rbac-namespaces", shop + "," + blog},
			"credentials: {useSecret: false}\nrbac: {clusterAdministrator: false, namespaces: [" + shop + ", " + blog + "]}\n",
		},
		"least privilege for volumes": {
			[]string{
				"--no-default-backup-location", "--no-secret", "--rbac", "least", "--rbac-namespaces", shop, "--features",
				"EnableCSI", "--rbac-all-volumes",
				"--use-node-agent", "--sa-annotations", "iam=x",
			},
			"credentials: {useSecret: false}\n" +
				"rbac: {clusterAdministrator: false, namespaces: [" + shop + "], allVolumes: true}\n" +
				"configuration: {features: EnableCSI}\ndeployNodeAgent: true\nserviceAccount: {server: {annotations: {iam: x}}}\n",
		},
		"least privilege with node agents": {
			[]string{"--no-default-backup-location", "--no-secret", "--rbac", "least", "--rbac-namespaces", shop,
				"--use-node-agent"},
			"credentials: {useSecret: false}\nrbac: {clusterAdministrator: false, namespaces: [" + shop + "]}\n" +
				"deployNodeAgent: true\n",
		},
		"a service account of others": {
			[]string{"--no-default-backup-location", "--no-secret", "--service-account-name", "backups", "--use-node-agent"},
			"credentials: {useSecret: false}\nrbac: {create: false}\nserviceAccount: {server: {create: false, name: " +
				"backups}}\ndeployNodeAgent: true\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			printed := s.Must(append([]string{"install", "--dry-run", "-o", "json", "--image", "registry.example.io/cleat:v1"},
				tt.flags...)...)
			want := site.ByName(t, bytes.NewReader([]byte(printed)))
			delete(want, "Namespace /"+s.Namespace) // Helm's --create-namespace makes it
			got := render(tt.values)
			require.Len(t, got, len(want))
			for key, object := range want {
				require.Contains(t, got, key)
				require.Equal(t, object.Object, got[key].Object, key)
				if object.GetKind() != "CustomResourceDefinition" {
					validate(s, got[key])
				}
			}
		})
	}
	t.Run("more than cleat install", func(t *testing.T) {
		t.Parallel()
		got := render(`
schedules:
  nightly: {schedule: "0 3 * * *", paused: true, labels: {a: b}, template: {ttl: 24h, includedNamespaces: [shop]}}
  never: {disabled: true, schedule: "@daily"}
metrics:
  service: {enabled: true, labels: {a: b}}
  serviceMonitor: {enabled: true}
  prometheusRule: {enabled: true, additionalLabels: {a: b}, spec: [{alert: Own, expr: vector(1)}]}
  dashboard: {enabled: true}
extraObjects:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: extra, namespace: "{{ .Release.Namespace }}"}, data: {a: b}}
`)
		for _, key := range []string{"Schedule ", "Service ", "ConfigMap "} {
			name := map[string]string{"Schedule ": "nightly", "Service ": "velero", "ConfigMap ": "extra"}[key]
			require.Contains(t, got, key+s.Namespace+"/"+name)
			validate(s, got[key+s.Namespace+"/"+name])
		}
		require.Contains(t, got, "ServiceMonitor "+s.Namespace+"/velero")
		require.NotContains(t, got, "Schedule "+s.Namespace+"/never")

		var alerts map[string]any
		require.NoError(t, yaml.Unmarshal(monitoring.Alerts, &alerts))
		groups, _, err := unstructured.NestedSlice(got["PrometheusRule "+s.Namespace+"/velero"].Object, "spec", "groups")
		require.NoError(t, err)
		require.Equal(t, alerts["groups"], groups[:1], "the text of the alerts is not filled in")
		require.Equal(t, []any{map[string]any{"alert": "Own", "expr": "vector(1)"}}, groups[1].(map[string]any)["rules"]) //nolint:forcetypeassert // a test
		dashboard := got["ConfigMap "+s.Namespace+"/velero-dashboard"]
		validate(s, dashboard)
		require.Equal(t, "1", dashboard.GetLabels()["grafana_dashboard"])
		text, _, err := unstructured.NestedString(dashboard.Object, "data", "cleat.json")
		require.NoError(t, err)
		require.JSONEq(t, string(monitoring.Dashboard), text)
	})
}

// validate sends an object to the API server for a dry run of apply; unknown fields are errors.
func validate(s *site.Site, object *unstructured.Unstructured) {
	s.T.Helper()
	strict := client.WithFieldValidation(s.Client, "Strict")
	err := strict.Apply(s.T.Context(), client.ApplyConfigurationFromUnstructured(object.DeepCopy()), client.ForceOwnership,
		client.FieldOwner("test"), client.DryRunAll)
	require.NoError(s.T, err, "%s %s", object.GetKind(), object.GetName())
}
