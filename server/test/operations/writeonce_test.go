package operations_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/site"
)

// strictBucket lets each key of a site's bucket be written once, also after it was deleted. If conditional is set, it
// refuses writes without the condition that the key is absent.
type strictBucket struct {
	s           *site.Site
	conditional bool

	mu      sync.Mutex
	gone    map[string]bool
	refused []string
}

// answer implements site.Gate.Answer.
func (b *strictBucket) answer(w http.ResponseWriter, r *http.Request) bool {
	key, ours := strings.CutPrefix(r.URL.Path, "/"+filepath.Base(b.s.BucketDir)+"/")
	if !ours || r.Method != http.MethodPut && r.Method != http.MethodDelete {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.Method == http.MethodDelete {
		b.gone[key] = true
		return false
	}
	_, err := os.Stat(filepath.Join(b.s.BucketDir, key))
	condition := r.Header.Get("If-None-Match") == "*"
	if (condition || err != nil && !b.conditional) && !b.gone[key] {
		return false
	}
	b.refused = append(b.refused, key)
	w.WriteHeader(http.StatusForbidden)
	_, _ = w.Write([]byte(`<Error><Code>AccessDenied</Code><Message>this key was written</Message></Error>`))
	return true
}

func (b *strictBucket) requireNoneRefused() {
	b.s.T.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	require.Empty(b.s.T, b.refused)
}

// newStrictSite returns a site with two items whose operations change the backup afterwards. Its bucket locks the files
// of backups, or takes conditional writes only.
func newStrictSite(t *testing.T, conditional bool) (*site.Site, *site.Gate, *site.Works, *strictBucket) {
	t.Helper()
	s, g := site.NewGated(t)
	s.Resources = site.Few()
	if !conditional {
		bucket := s.Cluster.NewLockingBucket(t, "locked", nil)
		s.BucketDir = filepath.Join(s.Cluster.S3.Dir, bucket)
		s.ChangeLocation(func(l *velerov1.BackupStorageLocation) {
			l.Spec.ObjectStorage.Bucket = bucket
			l.Spec.Config["objectLockMode"], l.Spec.Config["objectLockFor"] = "GOVERNANCE", "1h"
		})
	}
	bucket := &strictBucket{s: s, conditional: conditional, gone: map[string]bool{}}
	g.Answer = bucket.answer
	s.ChangeLocation(func(l *velerov1.BackupStorageLocation) {
		if conditional {
			l.Annotations = map[string]string{velerov1.WriteOnceAnnotation: "true"}
		}
	})
	w := s.Work()
	s.Shop = s.Workload(1)
	for _, item := range []string{"one", "two"} {
		s.Item(s.Shop, item, "keyed", "length", "300ms", "after", "later")
	}
	require.NoError(t, s.Client.Create(t.Context(),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Shop, Name: "later"}}))
	return s, g, w, bucket
}

// requireFinal requires that the bucket has a whole backup and nothing else below its name.
func requireFinal(s *site.Site, name string) {
	s.T.Helper()
	b := s.AwaitBackup(name, velerov1.BackupPhaseCompleted)
	require.Empty(s.T, b.Annotations[velerov1.StagedAnnotation])
	require.Equal(s.T, 2, b.Status.BackupItemOperationsCompleted)
	s.RequireWhole(b)
	require.False(s.T, slices.ContainsFunc(s.Files("backups/"+name), func(file string) bool {
		return strings.HasPrefix(file, "staged")
	}), s.Files("backups/"+name))
}

// TestAcceptTrust_WriteOnce backs up with operations, and restores, in a bucket that takes conditional writes only.
func TestAcceptTrust_WriteOnce(t *testing.T) {
	t.Parallel()
	s, _, w, bucket := newStrictSite(t, true)
	s.Serve(w.Args...)
	s.Available()
	s.BeginBackupOf("source", s.Shop)
	requireFinal(s, "source")
	for _, name := range []string{"a", "b"} {
		s.RestoreTo(name, "source", s.Shop, s.Shop+"-"+name)
		s.AwaitRestore(name, velerov1.RestorePhaseCompleted)
		require.Contains(t, s.Must("restore", "logs", name), "all operations have ended")
	}
	require.Contains(t, s.Must("backup", "logs", "source"), "all operations have ended")
	s.Must("backup", "create", "dry", "--dry-run", "--include-namespaces", s.Shop)
	bucket.requireNoneRefused()
}

// publishes matches the writes of a backup whose files are staged. Of the deletions of staged files, which are all alike,
// it matches those of the files that are deleted first and last.
func publishes(r *http.Request) bool {
	if r.Method == http.MethodDelete && strings.Contains(r.URL.Path, "/staged/") &&
		!strings.Contains(r.URL.Path, "/velero-backup.json/") && !strings.Contains(r.URL.Path, "-checksums.json/") {
		return false
	}
	return site.WritesTo("backups")(r)
}

// TestAcceptTrust_LockedBucketKilled backs up with operations in a bucket with Object Lock, in which each key can be
// written once, and kills the server between any two of its writes.
func TestAcceptTrust_LockedBucketKilled(t *testing.T) {
	t.Parallel()
	s, g, w, bucket := newStrictSite(t, false)
	server := s.Serve(w.Args...)
	s.Available()
	var names []string
	places := site.EveryWrite(func(n int, when site.Moment) bool {
		name := fmt.Sprintf("%s-%d", when, n)
		hit := g.Arm(n, when, publishes)
		s.BeginBackupOf(name, s.Shop)
		at := ""
		s.Eventually("the server is held or the backup is done", func(ctx context.Context) (bool, error) {
			done, err := s.Done(ctx, name, "backup")
			select {
			case at = <-hit:
				return true, nil
			default:
				return done, err
			}
		})
		g.Disarm()
		if at == "" {
			return false
		}
		server.Kill()
		t.Logf("killed at write %d: %s", n, at)
		server = s.Serve(w.Args...)
		requireFinal(s, name)
		s.AwaitNoJournals()
		names = append(names, name)
		return true
	})
	require.GreaterOrEqual(t, places, 30, "fewer places than expected")
	bucket.requireNoneRefused()
	written := map[string]int{}
	for _, key := range s.Cluster.S3Writes(t, filepath.Base(s.BucketDir)) {
		written[key]++
		require.Equal(t, 1, written[key], "%s was written twice", key)
	}
	client := s.Cluster.S3Client()
	for _, name := range names {
		for _, file := range s.Files("backups/" + name) {
			key := "backups/" + name + "/" + file
			require.Equal(t, 1, written[key], key)
			head, err := client.HeadObject(t.Context(),
				&s3.HeadObjectInput{Bucket: aws.String(filepath.Base(s.BucketDir)), Key: &key})
			require.NoError(t, err)
			require.Equal(t, types.ObjectLockModeGovernance, head.ObjectLockMode, key)
		}
	}
}
