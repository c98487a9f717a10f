package manifests_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/test/site"
)

// downloads are the requests for manifests that a proxy of S3 has received.
type downloads struct {
	mu     sync.Mutex
	ranges []string
	bytes  int64
}

// watchManifests puts a proxy in front of the bucket.
func watchManifests(s *site.Site) *downloads {
	s.T.Helper()
	d := &downloads{}
	to, err := url.Parse(s.Cluster.S3.Endpoint)
	require.NoError(s.T, err)
	server := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = r.In.Host // the signature of requests covers it
		},
		ModifyResponse: func(r *http.Response) error {
			if r.Request.Method == http.MethodGet && strings.HasSuffix(r.Request.URL.Path, "-"+manifest.FileName) {
				d.mu.Lock()
				defer d.mu.Unlock()
				d.ranges, d.bytes = append(d.ranges, r.Request.Header.Get("Range")), d.bytes+r.ContentLength
			}
			return nil
		},
	})
	s.T.Cleanup(server.Close)
	s.Eventually("the location is behind the proxy", func(ctx context.Context) (bool, error) {
		var location velerov1.BackupStorageLocation
		if err := s.Client.Get(ctx, s.Key("default"), &location); err != nil {
			return false, err
		}
		location.Spec.Config["s3Url"] = server.URL
		return true, s.Client.Update(ctx, &location)
	})
	return d
}

// since returns the requests since the last call.
func (d *downloads) since() (ranges []string, bytes int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	ranges, bytes = d.ranges, d.bytes
	d.ranges, d.bytes = nil, 0
	return ranges, bytes
}

func TestManifestOfABackupInTheCluster(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/s3")
	seen := watchManifests(s)
	shop := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "shop-"}}
	require.NoError(t, s.Client.Create(t.Context(), shop))
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: shop.Name, Name: name, Labels: map[string]string{"app": "web"}}
	}
	settings := &corev1.ConfigMap{ObjectMeta: meta("settings")}
	require.NoError(t, s.Client.Create(t.Context(), settings))
	require.NoError(t, s.Client.Create(t.Context(),
		&appsv1.Deployment{ObjectMeta: meta("web"), Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web", EnvFrom: []corev1.EnvFromSource{
					{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}},
					{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "absent"}}},
				}}}},
			},
		}}))
	s.Serve()
	s.Available()
	s.Must("backup", "create", "monday", "--include-namespaces", shop.Name, "--wait")
	settings.Labels["tier"] = "front"
	require.NoError(t, s.Client.Update(t.Context(), settings))
	require.NoError(t, s.Client.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: meta("new")}))
	s.Must("backup", "create", "nightly", "--include-namespaces", shop.Name, "--wait")

	in := shop.Name + "/"
	require.Equal(t, fmt.Sprintf("configmaps/%snew\nconfigmaps/%ssettings\ndeployments.apps/%sweb\n", in, in, in),
		s.Must("manifest", "ls", "nightly", "-l", "app=web", "--include-resources", "cm,deploy", "-o", "name"))
	require.Regexp(t, `(?m)^deployments.apps +`+shop.Name+` +web +v1 +filters$`, s.Must("manifest", "ls", "nightly"))
	require.Regexp(t, `(?m)^deployments.apps +1 +█+$`, s.Must("manifest", "ls", "nightly", "--count"))
	out := s.Must("manifest", "get", "nightly", "deploy/web")
	require.Regexp(t, `reference +configmaps/`+in+
		`settings +spec\.template\.spec\.containers\[0\]\.envFrom\[0\]\.configMapRef`, out)
	require.Contains(t, s.Must("manifest", "get", "nightly", "cm", in+"settings", "--referrers"), "deployments.apps/"+in+
		"web")
	out = s.Must("manifest", "why", "nightly", "cm/settings")
	require.Contains(t, out, "configmaps/"+in+"settings: the filters of the backup select it\n")
	require.Contains(t, out, "deployments.apps/"+in+"web")
	require.Equal(t, "+ configmaps/"+in+"new\n~ configmaps/"+in+
		"settings  labels +tier=front\n1 added, 0 gone, 1 changed\n",
		s.Must("manifest", "diff", "monday", "nightly", "--include-resources", "configmaps"))
	_, errs, err := s.Run("manifest", "diff", "monday", "nightly", "--exit-code", "--include-resources", "configmaps")
	require.Error(t, err)
	require.Empty(t, errs)
	require.Contains(t, s.Must("manifest", "overlap", "monday", "nightly", "-o", "name"), "configmaps/"+in+"settings\n")
	out = s.Must("manifest", "graph", "nightly", "deploy/web")
	require.Contains(t, out, "configmaps/"+in+"settings [")
	require.Contains(t, out, "secrets/"+in+"absent (not in the backup) [")
	require.Contains(t, s.Must("manifest", "graph", "nightly", "--include-namespaces", shop.Name, "-o", "svg"), "<svg ")

	t.Run("get reads two ranges of a large manifest", func(*testing.T) { getFromLarge(s, seen) }) //nolint:paralleltest // it counts requests
	t.Run("a backup without a manifest is read from its archive", func(t *testing.T) {            //nolint:paralleltest // it removes the manifest
		require.NoError(t, os.Remove(manifestPath(s, "monday")))
		out, errs, err := s.Run("manifest", "ls", "monday", "--include-resources", "deploy,cm", "-l", "app=web", "-o", "name")
		require.NoError(t, err, errs)
		require.Equal(t, fmt.Sprintf("configmaps/%ssettings\ndeployments.apps/%sweb\n", in, in), out)
		require.Equal(t, "monday: has no manifest, reading its archive\n", errs)
		_, _, err = s.Run("manifest", "ls", "none")
		require.Error(t, err)
	})
}

// manifestPath returns the path of the manifest of a backup among the files of the bucket.
func manifestPath(s *site.Site, backup string) string {
	return filepath.Join(s.BucketDir, "backups", backup, backup+"-"+manifest.FileName)
}

// getFromLarge replaces a manifest with one of many items, and gets one of them.
func getFromLarge(s *site.Site, seen *downloads) {
	t := s.T
	t.Helper()
	file, err := os.Create(manifestPath(s, "nightly"))
	require.NoError(t, err)
	w, err := manifest.NewWriter(file, manifest.Header{Backup: manifest.Backup{Name: "nightly"}},
		manifest.Options{Dir: t.TempDir()})
	require.NoError(t, err)
	for i := range 50_000 {
		require.NoError(t, w.Add(&manifest.Item{
			APIVersion: "v1", Resource: "configmaps", ItemKind: "ConfigMap", Namespace: fmt.Sprintf("ns-%d", i%100),
			Name: fmt.Sprintf("x-%d", i),
			UID:  fmt.Sprintf("%08x-%d", uint32(i)*2654435761, i),
		}))
	}
	require.NoError(t, w.Close())
	info, err := file.Stat()
	require.NoError(t, err)
	require.NoError(t, file.Close())

	seen.since()
	var item manifest.Item
	require.NoError(t, json.Unmarshal([]byte(s.Must("manifest", "get", "nightly", "cm", "ns-45/x-12345", "-o", "json")),
		&item))
	require.Equal(t, "x-12345", item.Name)
	ranges, bytes := seen.since()
	require.Len(t, ranges, 2)
	require.Regexp(t, `^bytes=-\d+$`, ranges[0])
	require.Regexp(t, `^bytes=\d+-\d+$`, ranges[1])
	require.Less(t, bytes, info.Size()/4, "of %d bytes", info.Size())
}
