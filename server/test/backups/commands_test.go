package backups_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/site"
)

// TestAcceptBackup_LocationCommands works with locations of both kinds like users of Velero's command line.
func TestAcceptBackup_LocationCommands(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	location := func(name string) (l velerov1.BackupStorageLocation) {
		t.Helper()
		require.NoError(t, s.Client.Get(t.Context(), s.Key(name), &l))
		return l
	}
	for wrong, want := range map[string]string{
		"backup-location create x --provider aws":                              "--provider and --bucket",
		"backup-location create x --provider a --bucket b --access-mode Write": "want ReadWrite or ReadOnly",
		"backup-location create x --provider a --bucket b --credential cloud":  "want SECRET=KEY",
		"backup-location create x --provider a --bucket b --cacert /none":      "--cacert: open /none",
		"backup-location create default --provider a --bucket b":               "a location named default exists",
		"backup-location set none --access-mode ReadOnly":                      `"none" not found`,
		"snapshot-location create x":                                           "--provider",
		"backup-location delete":                                               "say which backup storage locations",
	} {
		_, errs, err := s.Run(strings.Fields(wrong)...)
		require.Error(t, err, wrong)
		require.Contains(t, errs, want, wrong)
	}

	require.Equal(t, "Backup storage location \"offsite\" configured successfully.\n",
		s.Must("backup-location", "create", "offsite", "--provider", "aws", "--bucket", "backups", "--prefix", "eu",
			"--config", "region=eu,kms=x", "--labels", "team=a",
			"--credential", "offsite=cloud", "--default", "--backup-sync-period", "5m", "--validation-frequency", "0",
			"--access-mode", "ReadOnly"))
	offsite := location("offsite")
	require.Equal(t, map[string]string{"team": "a"}, offsite.Labels)
	require.Equal(t, "aws", offsite.Spec.Provider)
	require.Equal(t, map[string]string{"region": "eu", "kms": "x"}, offsite.Spec.Config)
	require.Equal(t, velerov1.ObjectStorageLocation{Bucket: "backups", Prefix: "eu"}, *offsite.Spec.ObjectStorage)
	require.Equal(t, velerov1.SecretKeySelector{Name: "offsite", Key: "cloud"}, *offsite.Spec.Credential)
	require.Equal(t, "5m0s", offsite.Spec.BackupSyncPeriod.Duration.String())
	require.Zero(t, offsite.Spec.ValidationFrequency.Duration)
	require.True(t, offsite.Spec.Default)
	require.False(t, location("default").Spec.Default, "there is one default")

	require.Regexp(t, `^NAME +PROVIDER +BUCKET/PREFIX +PHASE +LAST VALIDATED +ACCESS MODE +DEFAULT
default +cleat.dev/file +\S+ +Unknown +Unknown +ReadWrite
offsite +aws +backups/eu +Unknown +Unknown +ReadOnly +true
$`, s.Must("backup-location", "get"))
	require.Equal(t, s.Must("backup-location", "get"), s.Must("get", "backup-locations"))
	require.Regexp(t, `LABELS\noffsite .* team=a\n$`, s.Must("backup-location", "get", "-l", "team=a", "--show-labels"))

	certificate := filepath.Join(t.TempDir(), "ca.pem")
	config, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig)
	require.NoError(t, err)
	require.NoError(t, rest.LoadTLSFiles(config))
	require.NoError(t, os.WriteFile(certificate, config.CAData, 0o600))
	s.Must("backup-location", "set", "default", "--default", "--cacert", certificate, "--credential", "cloud=key")
	changed := location("default")
	require.True(t, changed.Spec.Default)
	require.NotEmpty(t, changed.Spec.ObjectStorage.CACert)
	require.NotEmpty(t, changed.Spec.ObjectStorage.Bucket)
	require.Equal(t, "cloud", changed.Spec.Credential.Name)
	require.NotEmpty(t, changed.Spec.Config, "what no flag gives stays")
	require.False(t, location("offsite").Spec.Default)

	s.Must("snapshot-location", "create", "disks", "--provider", "aws", "--config", "region=eu", "--credential",
		"cloud=key")
	s.Must("snapshot-location", "set", "disks", "--config", "region=us")
	var disks velerov1.VolumeSnapshotLocation
	require.NoError(t, s.Client.Get(t.Context(), s.Key("disks"), &disks))
	require.Equal(t, map[string]string{"region": "us"}, disks.Spec.Config)
	require.Equal(t, "cloud", disks.Spec.Credential.Name)
	require.Regexp(t, `^NAME +PROVIDER\ndisks +aws\n$`, s.Must("get", "snapshot-locations"))
	require.Equal(t, "Volume snapshot location deleted: disks\n", s.Must("delete", "snapshot-location", "disks",
		"--confirm"))

	for name, where := range map[string]string{"there": "offsite", "here": "default"} {
		require.NoError(t, s.Client.Create(t.Context(), &velerov1.Backup{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name}, Spec: velerov1.BackupSpec{StorageLocation: where},
			Status: velerov1.BackupStatus{Phase: velerov1.BackupPhaseCompleted},
		}))
	}
	require.Equal(t, "Backup storage location deleted: offsite\nBackup \"there\" of the location was removed from the "+
		"cluster.\n",
		s.Must("backup-location", "delete", "offsite", "--confirm"))
	s.AwaitGone(&velerov1.Backup{}, "there")
	require.Equal(t, velerov1.BackupPhaseCompleted, s.Backup("here").Status.Phase)
}

// TestAcceptBackup_Commands works with backups and restores by verbs, downloads an archive, and collects a
// bundle that has no secret.
func TestAcceptBackup_Commands(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/s3")
	s.Serve()
	s.Available()
	shop := s.Workload(3)
	s.Must("create", "backup", "b", "--include-namespaces", shop, "--wait")
	require.Equal(t, s.Must("backup", "get", "b"), s.Must("get", "backups", "b"))
	require.Contains(t, s.Must("describe", "backup", "b"), "Phase:")

	file := filepath.Join(t.TempDir(), "b.tar.gz")
	require.Equal(t, "Backup b has been successfully downloaded to "+file+"\n",
		s.Must("backup", "download", "b", "-o", file))
	require.Contains(t, site.Unpacked(t, file), "metadata/version")
	_, errs, err := s.Run("backup", "download", "b", "-o", file)
	require.Error(t, err)
	require.Contains(t, errs, "replace it with --force")
	s.Must("backup", "download", "b", "-o", file, "--force")

	s.Must("create", "restore", "r", "--from-backup", "b", "--wait")
	require.Contains(t, s.Must("get", "restores"), "r ")
	secretive(s)
	bundle := filepath.Join(t.TempDir(), "bundle.tar.gz")
	require.Equal(t, "Wrote "+bundle+"\n", s.Must("debug", "--output", bundle, "--backup", "b", "--restore", "r"))
	collected := site.Unpacked(t, bundle)
	for _, name := range []string{
		"version.txt", "resources/backups.yaml", "resources/restores.yaml", "resources/backupstoragelocations.yaml",
		"workloads/deployments.yaml",
		"backups/b.log", "restores/r.log",
	} {
		require.Contains(t, collected, name)
	}
	require.Contains(t, collected["backups/b.log"], "backup stored")
	require.Contains(t, collected["resources/backups.yaml"], "name: b\n")
	require.NotContains(t, collected, "missing.txt")
	for name, content := range collected {
		for _, secret := range []string{"hunter2", s.Cluster.S3.SecretKey, "X-Amz-Signature"} {
			require.NotContains(t, content, secret, name)
		}
	}

	s.Must("create", "backup", "nightly", "--include-namespaces", shop, "--wait")
	var described struct{ Status map[string]any }
	require.NoError(t, json.Unmarshal([]byte(s.Must("describe", "backup", "nightly", "--details", "-o", "json")),
		&described))
	require.Contains(t, described.Status["resourceList"], "v1/ConfigMap")
	require.Equal(t, 7, s.RunPage(t, "command-line", "Verbs, client settings and support", ""))

	require.Equal(t, "Restore deleted: r\n", s.Must("delete", "restores", "r", "--confirm"))
	s.AwaitGone(&velerov1.Restore{}, "r")
	require.Equal(t, "Request to delete backup \"b\" submitted successfully.\nBackup \"b\" deleted.\n",
		s.Must("delete", "backup", "b", "--confirm", "--wait"))
}

// secretive creates objects with secrets in the usual fields.
func secretive(s *site.Site) {
	s.T.Helper()
	labels := map[string]string{"app": "x"}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "velero", Image: "x", Env: []corev1.EnvVar{{Name: "AWS_SECRET_ACCESS_KEY", Value: "hunter2"}},
		}}}}
	require.NoError(s.T, s.Client.Create(s.T.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "velero",
			Annotations: map[string]string{corev1.LastAppliedConfigAnnotation: "hunter2"}},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template},
	}))
	require.NoError(s.T, s.Client.Create(s.T.Context(), &velerov1.VolumeSnapshotLocation{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "disks",
			Annotations: map[string]string{corev1.LastAppliedConfigAnnotation: "hunter2"}},
		Spec: velerov1.VolumeSnapshotLocationSpec{Provider: "x", Config: map[string]string{"storagePassword": "hunter2"}},
	}))
}

// TestAcceptInstall_ClientConfig changes the configuration file that Velero's client also uses.
func TestAcceptInstall_ClientConfig(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	run := func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), site.Program(t), args...)
		cmd.Env = append(os.Environ(), "HOME="+home, "VELERO_NAMESPACE=")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := run("client", "config", "get", "namespace")
	require.NoError(t, err)
	require.Equal(t, "namespace: <NOT SET>\n", out)
	out, err = run("client", "config", "set", "namespace=backups", "cacert=/ca.pem", "features=EnableCSI")
	require.NoError(t, err)
	require.Equal(t, "features is for Velero's client; cleat does not use it.\n", out)
	_, err = run("client", "config", "set", "cacert=")
	require.NoError(t, err)
	out, err = run("client", "config", "get")
	require.NoError(t, err)
	require.Equal(t, "features: EnableCSI\nnamespace: backups\n", out)
	written, err := os.ReadFile(filepath.Join(home, ".config", "velero", "config.json"))
	require.NoError(t, err)
	require.JSONEq(t, `{"features":"EnableCSI","namespace":"backups"}`, string(written))
	for wrong, want := range map[string]string{"namespace": "want KEY=VALUE",
		"color=x": "there are cacert, colorized, features, namespace"} {
		out, err = run("client", "config", "set", wrong)
		require.Error(t, err)
		require.Contains(t, out, want)
	}
	out, err = run("schedule", "create", "x", "--schedule", "@daily", "-o", "yaml", "--kubeconfig",
		site.Shared.Get(t).Kubeconfig)
	require.NoError(t, err)
	require.Contains(t, out, "namespace: backups\n")
}
