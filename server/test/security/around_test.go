package security_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/site"
)

// TestAcceptSecurity_Around tries attacks around the server: on its ports, its containers, and a bundle for its
// authors.
func TestAcceptSecurity_Around(t *testing.T) {
	t.Parallel()
	t.Run("clients that are slow lose their connections", slowClientsAreCut)
	t.Run("containers cannot change themselves", containersAreConfined)
	t.Run("a bundle has no secrets", bundleHasNoSecrets)
}

func slowClientsAreCut(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	metrics, profiler, downloads := site.FreeAddress(t), site.FreeAddress(t), site.FreeAddress(t)
	s.Serve("--metrics-address", metrics, "--profiler-address", profiler, "--download-address", downloads,
		"--download-url", "http://"+downloads+"/files")
	s.Available()
	s.Shop = s.Workload(1)
	s.WholeBackup("")

	// A file larger than the buffers of a connection.
	path := filepath.Join(s.BucketDir, "backups", "whole", "whole.tar.gz")
	file, err := os.Create(path)
	require.NoError(t, err)
	_, err = io.CopyN(file, rand.Reader, 64<<20)
	require.NoError(t, errors.Join(err, file.Close()))
	request := &velerov1.DownloadRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "d"},
		Spec: velerov1.DownloadRequestSpec{
			Target: velerov1.DownloadTarget{Kind: velerov1.DownloadTargetKindBackupContents, Name: "whole"},
		},
	}
	require.NoError(t, s.Client.Create(t.Context(), request))
	s.Eventually("there is a link", func(ctx context.Context) (bool, error) {
		err := s.Client.Get(ctx, s.Key("d"), request)
		return request.Status.DownloadURL != "", err
	})
	link, err := url.Parse(request.Status.DownloadURL)
	require.NoError(t, err)

	const get = "GET %s HTTP/1.1\r\nHost: x\r\n\r\n"
	for name, client := range map[string]struct {
		at    string
		sends string
		more  string // sent repeatedly, without reading
	}{
		"metrics, half a header": {at: metrics, sends: "GET /metrics HTTP/1.1\r\nHost:"},
		"metrics, no body": {at: metrics, sends: "POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: " +
			"1000\r\n\r\n"},
		"metrics, nothing more":   {at: metrics, sends: fmt.Sprintf(get, "/healthz")},
		"metrics, reads nothing":  {at: metrics, more: fmt.Sprintf(get, "/metrics")},
		"profiler, half a header": {at: profiler, sends: "GET /debug/pprof/ HTTP/1.1\r\nHost:"},
		"profiler, no body": {at: profiler, sends: "POST /debug/pprof/cmdline HTTP/1.1\r\nHost: " +
			"x\r\nContent-Length: 1000\r\n\r\n"},
		"profiler, nothing more":   {at: profiler, sends: fmt.Sprintf(get, "/debug/pprof/cmdline")},
		"profiler, reads nothing":  {at: profiler, more: fmt.Sprintf(get, "/debug/pprof/")},
		"downloads, half a header": {at: downloads, sends: "GET /files HTTP/1.1\r\nHost:"},
		"downloads, no body": {at: downloads,
			sends: "GET /files HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n"},
		"downloads, nothing more":    {at: downloads, sends: fmt.Sprintf(get, "/files")},
		"downloads, reads no file":   {at: downloads, more: fmt.Sprintf(get, link.RequestURI())},
		"downloads, reads no errors": {at: downloads, more: fmt.Sprintf(get, "/files")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			connection, err := net.Dial("tcp", client.at)
			require.NoError(t, err)
			defer func() { _ = connection.Close() }() // was cut
			require.NoError(t, connection.SetDeadline(time.Now().Add(8*time.Minute)))
			_, err = io.WriteString(connection, client.sends)
			require.NoError(t, err)
			if client.more == "" {
				_, err = io.Copy(io.Discard, connection)
			}
			for client.more != "" && err == nil {
				_, err = io.WriteString(connection, strings.Repeat(client.more, 100))
			}
			require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "the server has kept the connection")
		})
	}
	t.Run("downloads, reads", func(t *testing.T) {
		t.Parallel()
		response, err := http.Get(request.Status.DownloadURL)
		require.NoError(t, err)
		defer response.Body.Close()
		n, err := io.Copy(io.Discard, response.Body)
		require.NoError(t, err)
		require.EqualValues(t, 64<<20, n)
	})
}

func containersAreConfined(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	printed := s.Must("install", "--dry-run", "-o", "json", "--image", "registry.example.io/cleat:v1",
		"--no-default-backup-location", "--no-secret", "--use-node-agent",
		"--plugins", "velero/velero-plugin-for-aws:v1.13.0", "--node-agent-plugins", "registry.example.io/mover:v1")
	seen := 0
	for _, object := range site.ByName(t, strings.NewReader(printed)) {
		var pod corev1.PodSpec
		text, err := json.Marshal(object.Object)
		require.NoError(t, err)
		switch object.GetKind() {
		case "Deployment":
			var d appsv1.Deployment
			require.NoError(t, json.Unmarshal(text, &d))
			pod = d.Spec.Template.Spec
		case "DaemonSet":
			var d appsv1.DaemonSet
			require.NoError(t, json.Unmarshal(text, &d))
			pod = d.Spec.Template.Spec
		}
		for _, c := range append(pod.InitContainers, pod.Containers...) {
			seen++
			context := c.SecurityContext
			require.NotNil(t, context, c.Name)
			require.Equal(t, new(true), context.ReadOnlyRootFilesystem, c.Name)
			require.Equal(t, new(false), context.AllowPrivilegeEscalation, c.Name)
			require.Equal(t, []corev1.Capability{"ALL"}, context.Capabilities.Drop, c.Name)
			require.Equal(t, corev1.SeccompProfileTypeRuntimeDefault, context.SeccompProfile.Type, c.Name)
		}
	}
	require.Equal(t, 5, seen, "of server and agents, with their plugins")
}

func bundleHasNoSecrets(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	s.Serve()
	s.Available()
	labels := map[string]string{"app": "x"}
	pod := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{
			corev1.LastAppliedConfigAnnotation: `{"env":[{"name":"A","value":"S3CRET"}]}`, "vault-token": "S3CRET",
		}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "c", Image: "x.invalid/x:1", Args: []string{"server", "--token", "S3CRET", "--password=S3CRET",
				"--url=https://u:S3CRET@h"},
			Command: []string{"sh", "-c", "PGPASSWORD=S3CRET run"}, Env: []corev1.EnvVar{{Name: "A", Value: "S3CRET"}},
			LivenessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
				Path: "/", Port: intstr.FromInt32(1), HTTPHeaders: []corev1.HTTPHeader{{Name: "X-Any", Value: "S3CRET"}},
			}}},
		}}},
	}
	require.NoError(t, s.Client.Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "d", Annotations: pod.Annotations},
		Spec: appsv1.DeploymentSpec{Replicas: new(int32(0)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: pod},
	}))
	require.NoError(t, s.Client.Create(t.Context(), &velerov1.BackupStorageLocation{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "other"},
		Spec: velerov1.BackupStorageLocationSpec{
			Provider: "cleat.dev/file", StorageType: velerov1.StorageType{ObjectStorage: &velerov1.ObjectStorageLocation{
				Bucket: "b",
			}},
			Config: map[string]string{"accessKey": "S3CRET", "s3Url": "https://u:S3CRET@h/?sig=S3CRET", "path": "/none"},
		},
	}))
	s.Shop = s.Workload(1)
	require.NoError(t, s.Client.Create(t.Context(), &velerov1.Backup{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "b",
			Annotations: map[string]string{"note": "Authorization: Bearer S3CRET"}},
		Spec: velerov1.BackupSpec{IncludedNamespaces: []string{s.Shop},
			Hooks: velerov1.BackupHooks{Resources: []velerov1.BackupResourceHookSpec{{
				Name: "dump", PreHooks: []velerov1.BackupResourceHook{
					{Exec: &velerov1.ExecHook{Command: []string{"dump", "--db-password", "S3CRET"}}},
				},
			}}}},
	}))
	s.AwaitBackup("b", velerov1.BackupPhaseCompleted)

	bundle := filepath.Join(t.TempDir(), "bundle.tar.gz")
	s.Must("debug", "--output", bundle, "--backup", "b")
	collected := site.Unpacked(t, bundle)
	for _, name := range []string{"workloads/deployments.yaml", "resources/backups.yaml",
		"resources/backupstoragelocations.yaml", "backups/b.log"} {
		require.Contains(t, collected, name)
	}
	for name, content := range collected {
		require.NotContains(t, content, "S3CRET", name)
	}
}
