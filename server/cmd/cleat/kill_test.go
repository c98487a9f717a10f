package main_test

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// newGatedSite returns a site on S3 whose server reaches the API server and S3 through a gate.
func newGatedSite(t *testing.T) (*site, *gate) {
	t.Helper()
	s := newSite(t, "cleat.dev/s3")
	g := &gate{}
	kubeconfig, s3 := g.behind(t, s.cluster)
	s.serverKubeconfig = kubeconfig
	var location velerov1.BackupStorageLocation
	require.NoError(t, s.client.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: "default"}, &location))
	location.Spec.Config["s3Url"] = s3
	require.NoError(t, s.client.Update(t.Context(), &location))
	return s, g
}

// TestAcceptBackup_KillServerAtEveryPhase kills the server with SIGKILL between any two writes that it makes to the API
// server or to S3 during a backup, a restore and a deletion. The next server must complete what was in progress, and
// the bucket must hold complete backups only.
func TestAcceptBackup_KillServerAtEveryPhase(t *testing.T) {
	t.Parallel()
	courses := map[string]struct {
		writes  []string // resources that are written to
		least   int      // number of writes that the course makes at least
		prepare func(*site, string)
		begin   func(*site, string)
		check   func(*site, string)
	}{
		"backup": {
			writes: []string{"backups"}, least: 12,
			prepare: func(*site, string) {},
			begin:   (*site).beginBackup,
			check:   (*site).checkBackup,
		},
		"restore": {
			writes: []string{"restores"}, least: 7,
			prepare: (*site).wholeBackup,
			begin:   (*site).beginRestore,
			check:   (*site).checkRestore,
		},
		"deletion": {
			writes: []string{"backups", "restores", "deletebackuprequests"}, least: 12,
			prepare: (*site).wholeBackupAndRestore,
			begin:   (*site).beginDeletion,
			check:   (*site).checkDeleted,
		},
	}
	for name, course := range courses {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, g := newGatedSite(t)
			s.resources = few()
			s.shop = s.workload(5)
			server := s.serve()
			s.available()
			writes := everyWrite(func(n int, when moment) bool {
				id := fmt.Sprintf("%s-%d", when, n)
				course.prepare(s, id)
				hit := g.arm(n, when, writesTo(course.writes...))
				course.begin(s, id)
				held := s.heldOrDone(hit, id, name)
				if held == "" {
					g.disarm()
					return false
				}
				server.kill()
				g.disarm()
				t.Logf("killed %s write %d: %s", when, n, held)
				server = s.serve()
				course.check(s, id)
				return true
			})
			require.GreaterOrEqual(t, writes, course.least, "fewer writes than expected")
		})
	}
}

// few returns the resources of site.resources for tests that make very many backups. A backup of all of them reads some
// forty lists, which is most of its work.
func few() []string { return []string{"configmaps", "secrets"} }

// heldOrDone waits until a write is held and returns it, or until the course is done.
func (s *site) heldOrDone(hit <-chan string, id, course string) (held string) {
	s.t.Helper()
	s.eventually("a write is held or the course is done", func(ctx context.Context) (bool, error) {
		done, err := s.done(ctx, id, course)
		select { // even if it is done: the server goes on while its write is held
		case held = <-hit:
			return true, nil
		default:
			return done, err
		}
	})
	return held
}

// done reports whether a course is done.
func (s *site) done(ctx context.Context, id, course string) (bool, error) {
	switch course {
	case "backup":
		var b velerov1.Backup
		err := s.client.Get(ctx, s.key(id), &b)
		return b.Status.Phase.Terminal(), err
	case "restore":
		var r velerov1.Restore
		err := s.client.Get(ctx, s.key(id), &r)
		return r.Status.Phase.Terminal(), err
	default:
		var requests velerov1.DeleteBackupRequestList
		err := s.client.List(ctx, &requests, client.InNamespace(s.namespace))
		return len(requests.Items) == 0, err
	}
}

func (s *site) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: s.namespace, Name: name}
}

func (s *site) beginBackup(name string) {
	require.NoError(s.t, s.client.Create(s.t.Context(), &velerov1.Backup{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Spec:       velerov1.BackupSpec{IncludedNamespaces: []string{s.shop}, IncludedResources: s.resources},
	}))
}

func (s *site) beginRestore(name string) {
	require.NoError(s.t, s.client.Create(s.t.Context(), &velerov1.Restore{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Spec:       velerov1.RestoreSpec{BackupName: "whole", NamespaceMapping: map[string]string{s.shop: s.shop + "-copy"}},
	}))
}

func (s *site) beginDeletion(name string) {
	require.NoError(s.t, s.client.Create(s.t.Context(), &velerov1.DeleteBackupRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Spec:       velerov1.DeleteBackupRequestSpec{BackupName: name},
	}))
}

// wholeBackup creates the backup that all restores use.
func (s *site) wholeBackup(string) {
	err := s.client.Get(s.t.Context(), s.key("whole"), &velerov1.Backup{})
	if apierrors.IsNotFound(err) {
		s.beginBackup("whole")
	}
	s.awaitBackup("whole", velerov1.BackupPhaseCompleted)
}

// wholeBackupAndRestore creates a backup and a restore from it, for deletion.
func (s *site) wholeBackupAndRestore(name string) {
	s.beginBackup(name)
	s.awaitBackup(name, velerov1.BackupPhaseCompleted)
	require.NoError(s.t, s.client.Create(s.t.Context(), &velerov1.Restore{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Spec:       velerov1.RestoreSpec{BackupName: name, NamespaceMapping: map[string]string{s.shop: s.shop + "-copy"}},
	}))
	s.eventually("the restore has ended", func(ctx context.Context) (bool, error) {
		var r velerov1.Restore
		err := s.client.Get(ctx, s.key(name), &r)
		return r.Status.Phase == velerov1.RestorePhaseCompleted, err
	})
}

func (s *site) awaitBackup(name string, want velerov1.BackupPhase) *velerov1.Backup {
	s.t.Helper()
	var b velerov1.Backup
	s.eventually(fmt.Sprintf("backup %s is %s", name, want), func(ctx context.Context) (bool, error) {
		err := s.client.Get(ctx, s.key(name), &b)
		if err == nil && b.Status.Phase.Terminal() && b.Status.Phase != want {
			require.Fail(s.t, "backup ended otherwise", "%s: %s %s %v", name, b.Status.Phase, b.Status.FailureReason,
				b.Status.ValidationErrors)
		}
		return b.Status.Phase == want, err
	})
	return &b
}

// checkBackup waits for the end of a backup and checks its files in the bucket.
func (s *site) checkBackup(name string) {
	s.t.Helper()
	var b velerov1.Backup
	s.eventually("backup "+name+" has ended and left nothing behind", func(ctx context.Context) (bool, error) {
		b = velerov1.Backup{}
		err := s.client.Get(ctx, s.key(name), &b)
		return b.Status.Phase.Terminal() && b.Annotations["cleat.dev/partial-data"] == "", err
	})
	require.NotNil(s.t, b.Status.CompletionTimestamp)
	require.Equal(s.t, velerov1.BackupPhaseCompleted, b.Status.Phase, "%s: %s", name, b.Status.FailureReason)
	s.requireWhole(&b)
}

// requireWhole requires that the bucket holds the complete backup.
func (s *site) requireWhole(b *velerov1.Backup) {
	s.t.Helper()
	dir := filepath.Join(s.bucketDir, "backups", b.Name)
	require.Equal(s.t, []string{"manifest.json.gz"}, s.artifacts(b.Name))
	s.requireDescribed(b.Name)
	metadata, err := os.ReadFile(filepath.Join(dir, "velero-backup.json"))
	require.NoError(s.t, err)
	var stored velerov1.Backup
	require.NoError(s.t, json.Unmarshal(metadata, &stored))
	require.Equal(s.t, b.Status, stored.Status, "the bucket tells the same as the cluster")
	require.Equal(s.t, b.Annotations["cleat.dev/claim"], stored.Annotations["cleat.dev/claim"],
		"the files are of the last attempt")
	require.Equal(s.t, "Backup", stored.Kind)
	file, err := os.Open(filepath.Join(dir, b.Name+".tar.gz"))
	require.NoError(s.t, err)
	defer file.Close()
	gz, err := gzip.NewReader(file)
	require.NoError(s.t, err)
	_, err = io.Copy(io.Discard, gz)
	require.NoError(s.t, err)
}

// checkRestore waits for the end of a restore and checks its files.
func (s *site) checkRestore(name string) {
	s.t.Helper()
	var r velerov1.Restore
	s.eventually("restore "+name+" has ended", func(ctx context.Context) (bool, error) {
		err := s.client.Get(ctx, s.key(name), &r)
		return r.Status.Phase.Terminal(), err
	})
	require.NotNil(s.t, r.Status.CompletionTimestamp)
	require.Equal(s.t, velerov1.RestorePhaseCompleted, r.Status.Phase, "%s: %s", name, r.Status.FailureReason)
	require.Len(s.t, s.files("restores/"+name), 5)
}

// checkDeleted waits until a backup is deleted completely.
func (s *site) checkDeleted(name string) {
	s.t.Helper()
	s.eventually("backup "+name+" is deleted", func(ctx context.Context) (bool, error) {
		var request velerov1.DeleteBackupRequest
		err := s.client.Get(ctx, s.key(name), &request)
		if err == nil && request.Status.Phase == velerov1.DeleteBackupRequestPhaseProcessed {
			require.Fail(s.t, "deletion failed", "%s: %s", name, strings.Join(request.Status.Errors, "; "))
		}
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
	require.True(s.t, apierrors.IsNotFound(s.client.Get(s.t.Context(), s.key(name), &velerov1.Backup{})))
	require.True(s.t, apierrors.IsNotFound(s.client.Get(s.t.Context(), s.key(name), &velerov1.Restore{})))
	require.Empty(s.t, s.files("backups/"+name))
	require.Empty(s.t, s.files("restores/"+name))
}
