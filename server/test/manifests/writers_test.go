package manifests_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/internal/kube/results"
	"github.com/cleat-dev/cleat/server/test/programs"
	"github.com/cleat-dev/cleat/server/test/site"
)

func loadManifest(s *site.Site, backup string) *manifest.Manifest {
	s.T.Helper()
	read, header, err := manifest.Load(bytes.NewReader(s.File(backup, backup+"-manifest.json.gz")))
	require.NoError(s.T, err)
	require.Equal(s.T, backup, header.Backup.Name)
	return read
}

// download downloads the resource list of a backup, or a file of a manifest writer, like a client.
func download(s *site.Site, request, backup, file string) []byte {
	s.T.Helper()
	download := &velerov1.DownloadRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: request},
		Spec: velerov1.DownloadRequestSpec{
			Target: velerov1.DownloadTarget{Kind: velerov1.DownloadTargetKindBackupResourceList, Name: backup},
		},
	}
	if file != "" {
		download.Annotations = map[string]string{velerov1.FileAnnotation: file}
	}
	require.NoError(s.T, s.Client.Create(s.T.Context(), download))
	s.Eventually("the download request is answered", func(ctx context.Context) (bool, error) {
		err := s.Client.Get(ctx, s.Key(request), download)
		return download.Status.DownloadURL != "", err
	})
	get, err := http.NewRequestWithContext(s.T.Context(), http.MethodGet, download.Status.DownloadURL, nil)
	require.NoError(s.T, err)
	get.Header.Set("Accept-Encoding", "identity")
	response, err := http.DefaultClient.Do(get)
	require.NoError(s.T, err)
	content, err := io.ReadAll(response.Body)
	require.NoError(s.T, errors.Join(err, response.Body.Close()))
	require.Equal(s.T, http.StatusOK, response.StatusCode, "%s", content)
	return content
}

// writers writes a configuration with manifest writers, each "NAME" or "NAME, KEY: VALUE", and returns the flags of a
// server with them.
func writers(s *site.Site, settings ...string) []string {
	s.T.Helper()
	plugins := s.T.TempDir()
	programs.Copy(s.T, "server/test/manifests/testdata/writers", filepath.Join(plugins, "writers"))
	programs.Copy(s.T, "server/internal/control/policy/testdata/policy", filepath.Join(plugins, "policy"))
	text := "backups:\n  manifestWriters:\n"
	for _, setting := range settings {
		text += "  - {plugin: " + setting + "}\n"
	}
	return []string{"--config", site.ConfigFile(s.T, text), "--plugin-dir", plugins}
}

// problems returns the messages about a backup as a whole.
func problems(s *site.Site, backup string) (warnings, errs []string) {
	s.T.Helper()
	found := site.Gzipped[results.Results](s, "backups/"+backup+"/"+backup+"-results.gz")
	return found.Warnings.Velero, found.Errors.Velero
}

func requireProblem(t *testing.T, messages []string, texts ...string) {
	t.Helper()
	require.True(t, slices.ContainsFunc(messages, func(message string) bool {
		return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(message, text) })
	}), "want %q in %q", texts, messages)
}

// hostile returns the writers that break a rule, with the texts of their errors.
func hostile() map[string][]string {
	return map[string][]string{
		"example.io/fails":     {"the inventory is closed"},
		"example.io/hangs":     {"did not answer Write within 3s"},
		"example.io/policy":    {"died during Write: exit status 3"},
		"example.io/endless":   {"the writer's files have more than 1073741824 bytes"},
		"example.io/returns":   {"before it had seen all items"},
		"example.io/traversal": {`invalid reply: artifact name "../x" must be`},
		"example.io/metadata":  {"invalid reply: velero-backup.json is the name of a file that each backup has"},
		"example.io/archive":   {"invalid reply: x.tar.gz would look like the archive of a backup"},
		"example.io/results":   {"invalid reply: results.gz is the name of a file that each backup has"},
		"example.io/twin":      {"it writes a file items.jsonl, as cleat.dev/item-list does"},
	}
}

// TestAcceptManifest_Writers describes a backup with good writers and with writers that fail, hang, die in the middle
// of a file, write without end, write nothing, continue after their end, and use names of other writers.
func TestAcceptManifest_Writers(t *testing.T) {
	t.Parallel()
	for _, failurePolicy := range []string{"Warn", "Fail"} {
		t.Run(failurePolicy, func(t *testing.T) {
			t.Parallel()
			s := site.New(t, "cleat.dev/s3")
			s.Shop = s.Workload(30)
			settings := []string{"cleat.dev/manifest", "cleat.dev/item-list", "example.io/names", "example.io/nothing",
				"example.io/late"}
			for name := range hostile() {
				setting := name + ", failurePolicy: " + failurePolicy
				switch name {
				case "example.io/hangs":
					setting += ", deadline: 3s"
				case "example.io/policy":
					setting += ", config: {do: die in the middle}"
				}
				settings = append(settings, setting)
			}
			s.Serve(writers(s, settings...)...)
			s.Available()
			s.BeginBackup("b")
			phase := velerov1.BackupPhaseCompleted
			if failurePolicy == "Fail" {
				phase = velerov1.BackupPhasePartiallyFailed
			}
			b := s.AwaitBackup("b", phase)

			require.Equal(t, []string{"items.jsonl", "late.txt", "manifest.json.gz", "names.txt"}, s.Artifacts("b"))
			s.RequireDescribed("b")
			lines := func(name string) int { return bytes.Count(s.File("b", "b-"+name), []byte("\n")) }
			require.Equal(t, b.Status.Progress.ItemsBackedUp, lines("items.jsonl"))
			require.Equal(t, b.Status.Progress.ItemsBackedUp, lines("names.txt"))
			require.Empty(t, s.File("b", "b-late.txt"))
			messages, others := problems(s, "b")
			if failurePolicy == "Fail" {
				messages, others = others, messages
			}
			require.Len(t, messages, len(hostile()), "%q", messages)
			require.Empty(t, others)
			for name, texts := range hostile() {
				requireProblem(t, messages, append(texts, "ManifestWriter("+name+")")...)
			}
			out := s.Must("plugin", "get")
			require.Regexp(t, `(?m)example\.io/fails.*`, out)
			require.Contains(t, s.Must("backup", "describe", "b"), "Format Version:  1.2.0")

			// The backup is as usable as any other.
			require.NoError(t, s.Client.Create(t.Context(), &velerov1.Restore{
				ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "r"},
				Spec:       velerov1.RestoreSpec{BackupName: "b", NamespaceMapping: map[string]string{s.Shop: s.Shop + "-copy"}},
			}))
			s.CheckRestore("r")
			s.Must("backup", "delete", "b", "--confirm", "--wait")
			require.Empty(t, s.Files("backups/b"))
		})
	}
}

func TestAcceptManifest_NoItems(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	s.Serve(writers(s, "cleat.dev/manifest", "cleat.dev/item-list", "example.io/names")...)
	s.Available()
	s.Shop = s.Workload(0)
	require.NoError(t, s.Client.Create(t.Context(), &velerov1.Backup{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "none"},
		Spec:       velerov1.BackupSpec{IncludedNamespaces: []string{s.Shop}, IncludedResources: []string{"secrets"}},
	}))
	s.AwaitBackup("none", velerov1.BackupPhaseCompleted)
	require.Equal(t, []string{"items.jsonl", "manifest.json.gz", "names.txt"}, s.Artifacts("none"))
	require.Empty(t, s.File("none", "none-items.jsonl"))
	for item := range loadManifest(s, "none").Items() {
		require.Fail(t, "there is an item", item.String())
	}
}

// withoutKey starts a proxy of S3 that refuses the write of a key, and returns its URL.
func withoutKey(s *site.Site, suffix string) string {
	s.T.Helper()
	to, err := url.Parse(s.Cluster.S3.Endpoint)
	require.NoError(s.T, err)
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host // the signature of requests covers it
	}, FlushInterval: -1}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if (r.Method == http.MethodPut || r.Method == http.MethodPost) && strings.HasSuffix(r.URL.Path, suffix) {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	s.T.Cleanup(server.Close)
	return server.URL
}

// TestAcceptManifest_BucketTakesAllButTheManifest has a bucket that refuses the file of one writer.
func TestAcceptManifest_BucketTakesAllButTheManifest(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/s3")
	var location velerov1.BackupStorageLocation
	require.NoError(t, s.Client.Get(t.Context(), s.Key("default"), &location))
	location.Spec.Config["s3Url"] = withoutKey(s, "-manifest.json.gz")
	require.NoError(t, s.Client.Update(t.Context(), &location))
	s.Serve(writers(s, "cleat.dev/manifest", "cleat.dev/item-list")...)
	s.Available()
	s.Shop = s.Workload(3)
	s.BeginBackup("b")
	b := s.AwaitBackup("b", velerov1.BackupPhaseCompleted)
	require.Equal(t, []string{"items.jsonl"}, s.Artifacts("b"))
	require.Equal(t, 1, b.Status.Warnings)
	warnings, errs := problems(s, "b")
	require.Empty(t, errs)
	requireProblem(t, warnings, "the backup is not described by one of its manifest writers",
		"ManifestWriter(cleat.dev/manifest)", "b-manifest.json.gz")
	require.Contains(t, s.Must("plugin", "get", "-o", "wide"), "cleat.dev/manifest")
}

// TestAcceptManifest_StockReads compares the files for Velero in a backup with and without manifest writers, and reads
// them through the paths that Velero's clients use.
func TestAcceptManifest_StockReads(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/s3")
	s.Shop = s.Workload(5)
	for name, args := range map[string][]string{
		"without": {"--config", site.ConfigFile(t, "backups: {manifestWriters: []}\n")},
		"with":    writers(s, "cleat.dev/manifest", "cleat.dev/item-list"),
	} {
		server := s.Serve(args...)
		s.Available()
		s.BeginBackup(name)
		s.AwaitBackup(name, velerov1.BackupPhaseCompleted)
		require.NoError(t, server.Stop())
	}
	require.Empty(t, s.Artifacts("without"))
	require.Equal(t, []string{"items.jsonl", "manifest.json.gz"}, s.Artifacts("with"))
	for _, file := range site.VelerosFiles("B") {
		switch file {
		case "velero-backup.json", "B-logs.gz", "B.tar.gz": // contain times
		default:
			require.Equal(t, s.File("without", strings.Replace(file, "B", "without", 1)),
				s.File("with", strings.Replace(file, "B", "with", 1)), file)
		}
	}
	require.Equal(t, s.Entries("without"), s.Entries("with"), "of the archives")
	require.Equal(t, "1.2.0\n", string(s.Archived("with", "metadata/version")))

	s.Serve(writers(s, "cleat.dev/manifest", "cleat.dev/item-list")...)
	s.Available()
	table := s.Must("backup", "get")
	for _, name := range []string{"with", "without"} {
		require.Regexp(t, `(?m)^`+name+` +Completed +0 +0 `, table)
		require.Contains(t, s.Must("backup", "describe", name, "--details"), "- "+s.Shop+"/item-a\n")
		require.Contains(t, s.Must("backup", "logs", name), `msg="backup started"`)
		require.NoError(t, s.Client.Create(t.Context(), &velerov1.Restore{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name},
			Spec:       velerov1.RestoreSpec{BackupName: name, NamespaceMapping: map[string]string{s.Shop: s.Shop + "-" + name}},
		}))
		s.CheckRestore(name)
		var restored corev1.ConfigMap
		require.NoError(t, s.Client.Get(t.Context(), client.ObjectKey{Namespace: s.Shop + "-" + name, Name: "item-e"},
			&restored))
	}
	for name, file := range map[string]string{"list": "", "manifest": "manifest.json.gz", "items": "items.jsonl"} {
		content := download(s, name, "with", file)
		want := "with-resource-list.json.gz"
		if file != "" {
			want = "with-" + file
		}
		require.Equal(t, s.File("with", want), content, name)
	}
	for _, name := range []string{"with", "without"} {
		s.Must("backup", "delete", name, "--confirm", "--wait")
		require.Empty(t, s.Files("backups/"+name), name)
	}
}
