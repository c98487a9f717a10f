package security_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/site"
)

// TestAcceptSecurity_Bombs has files of a bucket and modifiers that are small and decode to a lot, or to null instead
// of an object. They end as an error of their object: the server continues, in bounded memory.
func TestAcceptSecurity_Bombs(t *testing.T) {
	t.Parallel()
	t.Run("a list of null in a file of a backup", nullInFiles)
	t.Run("a member that is there twice", memberTwice)
	t.Run("many small files with many empty elements", emptyElements)
	t.Run("modifiers whose copies are copied", copiedCopies)
}

// plantFile stores a file in the bucket without a server.
func plantFile(s *site.Site, key string, content []byte) {
	s.T.Helper()
	path := filepath.Join(s.BucketDir, filepath.FromSlash(key))
	require.NoError(s.T, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(s.T, os.WriteFile(path, content, 0o600))
}

// inflating returns text, compressed, repeat times between begin and end.
func inflating(t *testing.T, begin, text string, repeat int, end string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write([]byte(begin))
	require.NoError(t, err)
	many := strings.Repeat(text, min(repeat, 10_000))
	for left := repeat; left > 0; left -= 10_000 {
		_, err := w.Write([]byte(many[:len(text)*min(left, 10_000)]))
		require.NoError(t, err)
	}
	_, err = w.Write([]byte(end))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return out.Bytes()
}

// bounded limits the memory of a server, so that it is killed alone if it takes too much.
func bounded(v *site.Server, bytes uint64) {
	v.Site.T.Helper()
	require.NoError(v.Site.T, unix.Prlimit(v.Cmd.Process.Pid, unix.RLIMIT_DATA, &unix.Rlimit{Cur: bytes, Max: bytes}, nil))
}

// peak returns the peak memory of a server in MiB, and fails if the server has ended.
func peak(v *site.Server) int {
	v.Site.T.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", v.Cmd.Process.Pid))
	require.NoError(v.Site.T, err, "the server has ended")
	_, after, found := strings.Cut(string(status), "VmHWM:")
	require.True(v.Site.T, found, "the server has ended:\n%s", v.Log.Tail())
	kib, err := strconv.Atoi(strings.Fields(after)[0])
	require.NoError(v.Site.T, err)
	return kib / 1024
}

// endedBackup returns a velero-backup.json of a backup that has ended, with other members of its status.
func endedBackup(name string) []byte {
	at := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	return fmt.Appendf(nil, `{"apiVersion":"velero.io/v1","kind":"Backup","metadata":{"name":%q},"spec":{},"status":{"phase":"Completed","startTimestamp":%q,"completionTimestamp":%q}}`, name, at, at)
}

// nullInFiles shows that the deletion of a backup with a null among its snapshots or volumes ends with an error that
// names the position.
func nullInFiles(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	server := s.Serve()
	s.Available()
	shop := s.Workload(2)
	for _, file := range []string{"volumesnapshots", "volumeinfo", "podvolumebackups"} {
		name := "null-" + file
		s.Must("backup", "create", name, "--include-namespaces", shop, "--wait")
		plantFile(s, "backups/"+name+"/"+name+"-"+file+".json.gz", inflating(t, "[", "null", 1, "]"))
		_, _, err := s.Run("backup", "delete", name, "--confirm")
		require.NoError(t, err)
		s.Eventually("the deletion of "+name+" has ended", func(ctx context.Context) (bool, error) {
			var list velerov1.DeleteBackupRequestList
			if err := s.Client.List(ctx, &list, client.InNamespace(s.Namespace)); err != nil {
				return false, err
			}
			for i := range list.Items {
				if request := &list.Items[i]; request.Spec.BackupName == name {
					if request.Status.Phase != velerov1.DeleteBackupRequestPhaseProcessed {
						return false, fmt.Errorf("it is %s", request.Status.Phase)
					}
					require.Contains(t, strings.Join(request.Status.Errors, "\n"), "/0: it is null")
					return true, nil
				}
			}
			return false, fmt.Errorf("there is no request")
		})
	}
	require.NotContains(t, server.Log.String(), "panic")
	s.Must("backup", "create", "another", "--include-namespaces", shop, "--wait")
	require.Contains(t, s.Must("backup", "delete", "another", "--confirm", "--wait"), `Backup "another" deleted.`)
	require.NoError(t, server.Stop())
}

// memberTwice shows that a velero-backup.json with the same member twice, or with null instead of an object, is
// skipped and does not end the server.
func memberTwice(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/s3")
	const begin = `{"apiVersion":"velero.io/v1","kind":"Backup","metadata":{"name":"twice"},"spec":{},"status":{"phase":"InProgress","expiration":"2020-01-01T00:00:00Z"},`
	plantFile(s, "backups/twice/velero-backup.json", []byte(begin+`"status":null}`))
	plantFile(s, "backups/good/velero-backup.json", endedBackup("good"))
	for range 2 { // starts
		server := s.Serve(site.Often...)
		s.Available()
		s.Eventually("the good backup is there", func(context.Context) (bool, error) {
			peak(server) // fails if it has ended
			return slices.Equal(s.BackupNames(), []string{"good"}), nil
		})
		server.AwaitLine("skipped directories of the bucket", "twice: the file is damaged: invalid JSON: ",
			"duplicate object member name")
		require.NoError(t, server.Stop())
	}
}

// emptyElements shows that files of a few kilobytes, each with millions of empty elements, are refused in bounded
// memory, all at once, and that no element is sent to the API server.
func emptyElements(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/s3")
	const bombs = 32
	for file, bomb := range map[string][]byte{
		"empty": inflating(t, "[", "{},", 20_000_000, "{}]"),
		"deep":  inflating(t, `[{"spec":`, "[", 30_000_000, ""),
		"long":  inflating(t, `[{"spec":"`, "a", 60_000_000, `"}]`),
	} {
		require.Less(t, len(bomb), 100<<10)
		for i := range bombs {
			name := fmt.Sprintf("%s-%d", file, i)
			plantFile(s, "backups/"+name+"/velero-backup.json", endedBackup(name))
			plantFile(s, "backups/"+name+"/"+name+"-podvolumebackups.json.gz", bomb)
		}
	}
	server := s.Serve(site.Often...)
	bounded(server, 1<<30)
	s.Eventually("all backups are there", func(context.Context) (bool, error) {
		peak(server) // fails if it has ended
		return len(s.BackupNames()) == 3*bombs, nil
	})
	server.AwaitLine("the PodVolumeBackups of a backup cannot be read", "metadata.name")
	require.NotContains(t, server.Log.String(), "a PodVolumeBackup of a backup was refused",
		"it was sent to the API server")
	shop := s.Workload(2)
	s.Must("backup", "create", "another", "--include-namespaces", shop, "--wait")
	peak := peak(server)
	t.Logf("the server has had at most %d MiB", peak)
	require.Less(t, peak, 400)
	require.NoError(t, server.Stop())
}

// copiedCopies shows that all rules of a modifier together cannot make an object larger than an API server stores.
func copiedCopies(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	s.Environment = []string{"GOGC=100"} // less garbage than the usual setting of tests permits
	server := s.Serve()
	s.Available()
	shop := s.Workload(2)
	type operation struct {
		Operation string `json:"operation"`
		From      string `json:"from,omitempty"`
		Path      string `json:"path"`
		Value     string `json:"value,omitempty"`
	}
	type rule struct {
		Conditions map[string]string `json:"conditions"`
		Patches    []operation       `json:"patches"`
	}
	where := map[string]string{"groupResource": "configmaps", "resourceNameRegex": "^item-a$"}
	first := rule{where, []operation{{Operation: "add", Path: "/data/s", Value: strings.Repeat("x", 500)}}}
	for i := range 12 { // each doubles it
		first.Patches = append(first.Patches, operation{Operation: "copy", From: "/data", Path: fmt.Sprintf("/data/%d", i)})
	}
	rules := []rule{first}
	for i := range 40 {
		rules = append(rules, rule{where,
			[]operation{{Operation: "copy", From: "/data/11", Path: fmt.Sprintf("/data/a%d", i)}}})
	}
	document, err := json.Marshal(map[string]any{"version": "v1", "resourceModifierRules": rules})
	require.NoError(t, err)
	t.Logf("the modifiers have %d bytes", len(document))
	require.NoError(t, s.Client.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "grow"}, Data: map[string]string{
			"document": string(document),
		},
	}))
	s.Must("backup", "create", "first", "--include-namespaces", shop, "--wait")
	before := peak(server)
	_, _, err = s.Run("restore", "create", "back", "--from-backup", "first", "--namespace-mappings", shop+":"+shop+"-copy",
		"--resource-modifier-configmap", "grow", "--wait")
	t.Logf("the server had at most %d MiB before, and has had %d MiB", before, peak(server))
	require.Error(t, err)
	require.Contains(t, s.Must("restore", "describe", "back"), "larger than")
	require.Less(t, peak(server), before+200)
	require.NoError(t, s.Client.Get(t.Context(), client.ObjectKey{Namespace: shop + "-copy", Name: "item-b"},
		new(corev1.ConfigMap)))
	require.NoError(t, server.Stop())
}
