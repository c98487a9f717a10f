package rehearsals_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/outcome"
	"github.com/cleat-dev/cleat/server/internal/bucket/rehearsal"
	"github.com/cleat-dev/cleat/server/internal/control/rehearsals"
	"github.com/cleat-dev/cleat/server/test/site"
)

// fileOfReport returns the path of the report of a rehearsal, and its id.
func fileOfReport(s *site.Site, r *velerov1.Restore) (path, id string) {
	sum := sha256.Sum256([]byte(r.UID))
	id = r.CreationTimestamp.UTC().Format("20060102150405") + "-" + hex.EncodeToString(sum[:4])
	backup := r.Spec.BackupName
	return filepath.Join(s.BucketDir, "backups", backup, backup+"-"+rehearsal.FileName(id)), id
}

// overwrite compresses a file and puts it into the bucket.
func overwrite(s *site.Site, path string, content []byte) {
	s.T.Helper()
	var data bytes.Buffer
	compressed := gzip.NewWriter(&data)
	_, err := compressed.Write(content)
	require.NoError(s.T, err)
	require.NoError(s.T, compressed.Close())
	s.Overwrite(path, data.Bytes())
}

// forged returns the report of a rehearsal that somebody would like to see.
func forged(s *site.Site, id string) []byte {
	s.T.Helper()
	content, err := json.Marshal(rehearsal.Report{Version: 1, Backup: "b",
		Summary: rehearsal.Summary{ID: id, Result: rehearsal.Passed, Text: "all is well", Stored: true}})
	require.NoError(s.T, err)
	return content
}

// consolePage returns a page of the console, as a user of it sees it.
func consolePage(s *site.Site, path string) string {
	s.T.Helper()
	cmd := exec.Command(site.Program(s.T), "console", "--in-cluster", "--no-browser", "--listen", "127.0.0.1:0",
		"--kubeconfig", s.Kubeconfig, "--namespace", s.Namespace)
	out, err := cmd.StdoutPipe()
	require.NoError(s.T, err)
	require.NoError(s.T, cmd.Start())
	defer func() {
		require.NoError(s.T, cmd.Process.Signal(os.Interrupt))
		require.NoError(s.T, cmd.Wait())
	}()
	address := regexp.MustCompile(`listens at (\S+)`)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		found := address.FindStringSubmatch(lines.Text())
		if found == nil {
			continue
		}
		request, err := http.NewRequestWithContext(s.T.Context(), http.MethodGet, "http://"+found[1]+path, nil)
		require.NoError(s.T, err)
		request.Header.Set("Authorization", "Bearer "+s.Cluster.Token)
		request.Header.Set("Accept", "text/html,*/*")
		response, err := http.DefaultClient.Do(request)
		require.NoError(s.T, err)
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		require.NoError(s.T, err)
		require.Equal(s.T, http.StatusOK, response.StatusCode, "%s", text)
		return string(text)
	}
	require.Fail(s.T, "the console has printed no address")
	return ""
}

// nobodySays requires that no reader says that the rehearsal of a backup has passed.
func nobodySays(s *site.Site, id string) {
	s.T.Helper()
	for what, text := range map[string]string{
		"describe": s.Must("backup", "describe", "b"), "get": s.Must("backup", "get", "b"),
		"rehearsals": s.Must("backup", "rehearsals", "b"), "the console": consolePage(s, "/backups/b"),
	} {
		require.NotContains(s.T, text, "Passed", what)
	}
	for _, form := range []string{"text", "json"} {
		out, errs, err := s.Run("backup", "rehearsals", "b", "--id", id, "-o", form)
		if err == nil && form == "json" {
			var report rehearsal.Report
			require.NoError(s.T, json.Unmarshal([]byte(out), &report))
			out = string(report.Result)
		}
		require.NotContains(s.T, out+errs, "Passed")
	}
}

// TestAcceptSecurity_Reports acts as the writer of the bucket: it puts the report of a rehearsal there before the server
// does, changes what became of the items before the server compares them, and changes reports later, signed ones and
// those of former versions. Nobody says that the rehearsal has passed.
func TestAcceptSecurity_Reports(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/s3")
	s.Must("key", "create", "--secret", "signing")
	s.Serve("--config", site.ConfigFile(t, "backups: {signing: {key: {secret: signing/key}}}\n"+
		"restores: {rehearsals: {limits: {memory: 512Mi}}}"))
	s.Available()
	ns := s.Put(`{apiVersion: v1, kind: Namespace, metadata: {generateName: shop-}}`).GetName()
	for name, memory := range map[string]string{"pending": "1Mi", "greedy": "1Gi"} {
		objects(s, ns, `{apiVersion: v1, kind: Pod, metadata: {name: `+name+`, namespace: NS}, spec: {
			securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}, containers: [{name: c, image: i,
			resources: {requests: {memory: `+memory+`}}, securityContext: {allowPrivilegeEscalation: false,
			capabilities: {drop: [ALL]}}}]}}`)
	}
	s.Must("backup", "create", "b", "--include-namespaces", ns, "--wait")
	// waiting begins a rehearsal that waits for a pod.
	waiting := func(name string) *velerov1.Restore {
		require.NoError(t, s.Client.Create(t.Context(), rehearsals.New(s.Namespace, name, "b", time.Hour)))
		return awaitPhase(s, name, velerov1.RehearsalWaiting)
	}
	ready := func(r *velerov1.Restore) rehearsal.Summary {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: r.Spec.NamespaceMapping[ns], Name: "pending"}}
		require.NoError(t, s.Client.Delete(t.Context(), pod))
		return resultOf(s, r.Name)
	}

	r := waiting("planted")
	path, id := fileOfReport(s, r)
	overwrite(s, path, forged(s, id))
	result := ready(r)
	require.Equal(t, rehearsal.Failed, result.Result, result.Text)
	require.Equal(t, id, result.ID)
	nobodySays(s, id) // whether the object store replaces the other report or keeps it

	r = waiting("items")
	items := filepath.Join(s.BucketDir, "restores", r.Name, "restore-"+r.Name+"-"+outcome.FileName)
	var kept bytes.Buffer
	writer := outcome.NewWriter(&kept)
	_, err := outcome.Read(s.Unzipped("restores", r.Name, filepath.Base(items)), func(one outcome.Item) error {
		if one.Name != "greedy" {
			writer.Add(one)
		}
		return nil
	})
	require.NoError(t, err)
	_, err = writer.Close(nil)
	require.NoError(t, err)
	s.Overwrite(items, kept.Bytes())
	result = ready(r)
	require.Equal(t, rehearsal.Failed, result.Result, result.Text)
	require.Contains(t, result.Text, "was changed in the bucket")

	r = waiting("r")
	path, id = fileOfReport(s, r)
	result = ready(r)
	require.Equal(t, rehearsal.Failed, result.Result, result.Text)
	require.True(t, result.Stored)
	printed := func(args ...string) string {
		return s.Must(append([]string{"backup", "rehearsals", "b", "--id", id}, args...)...)
	}
	require.Contains(t, printed(), "the digest that the cluster has noted")
	stored, err := io.ReadAll(s.Unzipped("backups", "b", filepath.Base(path)))
	require.NoError(t, err)
	require.Equal(t, result.Digest, rehearsal.Digest(stored))
	var signed map[string]any
	require.NoError(t, json.Unmarshal(stored, &signed))
	signed["payload"] = forged(s, id)
	resigned, err := json.Marshal(signed)
	require.NoError(t, err)
	for name, content := range map[string][]byte{"unsigned": forged(s, id), "with the signature of the other": resigned} {
		overwrite(s, path, content)
		_, errs, err := s.Run("backup", "rehearsals", "b", "--id", id)
		require.Error(t, err, name)
		require.Contains(t, errs, "somebody has changed it", name)
		nobodySays(s, id)
	}

	// A cluster that has not noted the digest, because it is another one, or a former server has made the rehearsal.
	b := &velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "b"}}
	require.NoError(t, s.Client.Patch(t.Context(), b, client.RawPatch(types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"`+velerov1.RehearsalsAnnotation+`":null}}}`))))
	for want, content := range map[string][]byte{
		"it is not signed": forged(s, id), "it is not the one that key": resigned,
	} {
		overwrite(s, path, content)
		require.Contains(t, printed(), want)
		require.Regexp(t, `"result": ?"NotProved"`, printed("-o", "json"))
		nobodySays(s, id)
	}
	overwrite(s, path, stored)
	require.Contains(t, printed(), "the signature of key sha256:")
	require.Regexp(t, `Result: +Failed`, printed())
}
