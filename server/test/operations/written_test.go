package operations_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/test/site"
)

// bucketWriter is somebody who can write to the bucket of a site, and acts when the server reads a file of a backup,
// before it gets the answer.
type bucketWriter struct {
	s *site.Site

	mu    sync.Mutex
	reads map[string][]string                     // the files that were read, without the name of their backup, by backup
	act   func(backup, file string, n int) []byte // returns what replaces a file as it is read for the n-th time, or nil
	acted map[string]bool
}

func newBucketWriter(s *site.Site) *bucketWriter {
	return &bucketWriter{s: s, reads: map[string][]string{}, acted: map[string]bool{}}
}

// see notes a request, and acts.
func (w *bucketWriter) see(r *http.Request) {
	key, ours := strings.CutPrefix(r.URL.Path, "/"+filepath.Base(w.s.BucketDir)+"/backups/")
	if !ours || r.Method != http.MethodGet || key == "" || r.Header.Get("Range") != "" {
		return
	}
	backup, file, _ := strings.Cut(key, "/")
	if strings.HasPrefix(file, "staged/") {
		file = path.Base(path.Dir(file))
	}
	file = strings.TrimPrefix(file, backup)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reads[backup] = append(w.reads[backup], file)
	if w.act == nil {
		return
	}
	if content := w.act(backup, file, len(w.reads[backup])); content != nil {
		w.acted[backup] = true
		_, err := w.s.Cluster.S3Client().PutObject(context.Background(), &s3.PutObjectInput{Key: aws.String("backups/" + key),
			Bucket: aws.String(filepath.Base(w.s.BucketDir)), Body: bytes.NewReader(content)})
		if err != nil {
			w.s.T.Error(err)
		}
	}
}

func (w *bucketWriter) set(act func(backup, file string, n int) []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.act = act
}

func (w *bucketWriter) has(backup string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.acted[backup]
}

// readBy returns the files of a backup that the server has read.
func (w *bucketWriter) readBy(backup string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Compact(slices.Sorted(slices.Values(w.reads[backup])))
}

// inEachLocation calls test for a server that signs, with a backup "donor" that had operations, in a plain location, one
// that locks, and one that takes conditional writes only.
func inEachLocation(t *testing.T, test func(t *testing.T, s *site.Site, w *bucketWriter)) {
	t.Helper()
	for _, kind := range []string{"plain", "locking", "write-once"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s, g, works, strict := newStrictSite(t, kind == "write-once")
			if kind == "plain" {
				s, g = site.NewGated(t)
				s.Resources = site.Few()
				works = s.Work()
				s.Shop = s.Workload(1)
				s.Item(s.Shop, "one", "keyed", "length", "300ms", "after", "later")
				require.NoError(t, s.Client.Create(t.Context(),
					&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Shop, Name: "later"}}))
			}
			writer := newBucketWriter(s)
			g.Answer = func(w http.ResponseWriter, r *http.Request) bool {
				writer.see(r)
				return kind != "plain" && strict.answer(w, r)
			}
			key := filepath.Join(t.TempDir(), "signing.pem")
			s.Must("key", "create", "--out", key)
			content, err := os.ReadFile(key)
			require.NoError(t, err)
			require.NoError(t, s.Client.Create(t.Context(), &corev1.Secret{Data: map[string][]byte{"key": content},
				ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "signing"}}))
			works.Set("backups: {signing: {key: {secret: signing/key}}}")
			s.Serve(append(works.Args, "--store-outage-timeout", "2s")...)
			s.Available()
			s.BeginBackupOf("donor", s.Shop)
			donor := s.AwaitBackup("donor", velerov1.BackupPhaseCompleted)
			s.RequireSummed(donor)
			require.Contains(t, s.Files("backups/donor"), "donor-"+store.SignatureFile)
			test(t, s, writer)
		})
	}
}

// end waits for the end of a backup in which a writer of the bucket has acted.
func (w *bucketWriter) end(name string) *velerov1.Backup {
	w.s.T.Helper()
	w.s.Eventually("the backup has ended",
		func(ctx context.Context) (bool, error) { return w.s.Done(ctx, name, "backup") })
	var b velerov1.Backup
	require.NoError(w.s.T, w.s.Client.Get(w.s.T.Context(), w.s.Key(name), &b))
	return &b
}

// TestAcceptSecurity_SignsOnlyWhatItWrote has somebody replace each file of a backup by that of another backup as the
// server reads it to complete the backup after its operations. The server neither signs nor notes it.
func TestAcceptSecurity_SignsOnlyWhatItWrote(t *testing.T) {
	t.Parallel()
	inEachLocation(t, func(t *testing.T, s *site.Site, w *bucketWriter) {
		t.Helper()
		filesAreExchanged(t, s, w)
		finalBackupIsExchanged(t, s, w)
	})
}

func filesAreExchanged(t *testing.T, s *site.Site, w *bucketWriter) {
	t.Helper()
	files := slices.DeleteFunc(w.readBy("donor"), func(file string) bool { return !strings.HasSuffix(file, "gz") })
	for _, file := range []string{".tar.gz", "-itemoperations.json.gz", "-logs.gz", "-manifest.json.gz"} {
		require.Contains(t, files, file, "the server reads it")
	}
	var more bytes.Buffer // a gzip stream may have several members
	zipped := gzip.NewWriter(&more)
	_, err := zipped.Write([]byte("\n"))
	require.NoError(t, errors.Join(err, zipped.Close()))
	for _, file := range files {
		name := "victim" + strings.ReplaceAll(file, ".", "-")
		foreign := append(s.File("donor", "donor"+file), more.Bytes()...)
		w.set(func(backup, read string, _ int) []byte {
			if backup == name && read == file {
				return foreign
			}
			return nil
		})
		s.BeginBackupOf(name, s.Shop)
		b := w.end(name)
		require.True(t, w.has(name), file)
		require.NotEqual(t, velerov1.BackupPhaseCompleted, b.Status.Phase, file)
		require.Contains(t, b.Status.FailureReason, "the file is damaged", file)
		sum := store.MetadataTally(foreign)[store.MetadataFile]
		for _, noted := range store.Noted(b) {
			require.NotEqual(t, sum, noted[name+file])
		}
		if slices.Contains(s.Files("backups/"+name), name+"-"+store.ChecksumsFile) {
			require.NotContains(t, string(s.File(name, name+"-"+store.ChecksumsFile)), sum.SHA256)
		}
	}
}

// finalBackupIsExchanged has somebody write a final velero-backup.json, with notes of their own, as the server reads that
// file for the first time, the second time, and so on.
func finalBackupIsExchanged(t *testing.T, s *site.Site, w *bucketWriter) {
	t.Helper()
	donor := w.end("donor")
	const digest = "deadbeef"
	forged := s.File("donor", store.MetadataFile)
	for _, sum := range store.TallyOf(donor) {
		forged = bytes.ReplaceAll(forged, []byte(sum.SHA256[:len(digest)]), []byte(digest))
	}
	require.Contains(t, string(forged), digest)
	for at := 1; ; at++ {
		name := "final-" + string(rune('a'+at))
		reads := 0
		s.BeginBackupOf(name, s.Shop)
		var b velerov1.Backup
		require.NoError(t, s.Client.Get(t.Context(), s.Key(name), &b))
		content := bytes.ReplaceAll(bytes.ReplaceAll(forged, []byte(donor.UID), []byte(b.UID)), []byte(`"name":"donor"`),
			[]byte(`"name":"`+name+`"`))
		w.set(func(backup, read string, _ int) []byte {
			if backup != name || read != store.MetadataFile {
				return nil
			}
			if reads++; reads == at {
				return content
			}
			return nil
		})
		ended := w.end(name)
		require.NotContains(t, ended.Annotations[velerov1.FilesAnnotation], digest)
		for _, file := range s.Files("backups/" + name) {
			if file != store.MetadataFile && file != "staged" {
				require.NotContains(t, string(s.File(name, file)), digest, "the server has stored it")
			}
		}
		if !w.has(name) {
			require.Greater(t, at, 1, "the server reads it")
			return
		}
	}
}
