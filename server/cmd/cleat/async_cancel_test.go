package main_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
)

// TestAcceptOperations_Cancel cancels backups and restores in each phase, by the annotation and by their deletion. Each
// operation that was started is cancelled once and ends, and nothing stays open.
func TestAcceptOperations_Cancel(t *testing.T) {
	t.Parallel()
	const byAnnotation, byDeletion = "annotation", "deletion"
	for _, phase := range []string{"Queued", "InProgress", "WaitingForPluginOperations"} {
		for _, way := range []string{byAnnotation, byDeletion} {
			t.Run("backup "+phase+" "+way, func(t *testing.T) {
				t.Parallel()
				s := newSite(t, "cleat.dev/s3")
				w := s.work()
				s.serve(w.args...)
				s.available()
				shop := s.workload(1)
				s.item(shop, "first", "keyed", "length", "1h")
				if phase != "WaitingForPluginOperations" {
					s.item(shop, "last", "keyed", "as", "hangs in Start")
				}
				s.beginBackupOf("b", shop)
				w.awaitNote("begun backup/" + shop + "/first")
				name, cancels := "b", 1
				switch phase {
				case "Queued":
					name, cancels = "c", 0
					s.beginBackupOf(name, s.workload(1))
					s.awaitBackup(name, velerov1.BackupPhaseQueued)
				default:
					s.awaitBackup(name, velerov1.BackupPhase(phase))
				}
				if way == byDeletion {
					require.NoError(t, s.client.Delete(t.Context(),
						&velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}))
					s.awaitGone(&velerov1.Backup{}, name)
				} else {
					s.requestCancel(&velerov1.Backup{}, name)
					b := s.awaitEnd(name)
					if phase == "WaitingForPluginOperations" {
						require.Equal(t, velerov1.BackupPhasePartiallyFailed, b.Status.Phase)
						require.Equal(t, 1, b.Status.BackupItemOperationsFailed)
						require.Contains(t, s.messages(name), "was cancelled")
						s.requireWhole(b)
					} else {
						require.Equal(t, velerov1.BackupPhaseFailed, b.Status.Phase)
						require.Contains(t, b.Status.FailureReason, "cancelled on request")
					}
				}
				if phase != "Queued" {
					s.awaitNoJournals()
				}
				require.Equal(t, cancels, w.notes()["cancel backup/"+shop+"/first"])
				if way == byDeletion {
					s.eventually("the files are gone", func(context.Context) (bool, error) {
						if left := s.files("backups/" + name); len(left) > 0 {
							return false, fmt.Errorf("%v are left", left)
						}
						return true, nil
					})
				}
			})
		}
	}
	for _, phase := range []velerov1.RestorePhase{velerov1.RestorePhaseInProgress,
		velerov1.RestorePhaseWaitingForPluginOperations} {
		for _, way := range []string{byAnnotation, byDeletion} {
			t.Run(fmt.Sprintf("restore %s %s", phase, way), func(t *testing.T) {
				t.Parallel()
				s := newSite(t, "cleat.dev/s3")
				w := s.work()
				s.serve(w.args...)
				s.available()
				shop := s.workload(1)
				s.item(shop, "first", "keyed", "length", "1h", "in", "restore")
				if phase == velerov1.RestorePhaseInProgress {
					s.item(shop, "last", "keyed", "as", "hangs in Start", "in", "restore")
				}
				s.beginBackupOf("b", shop)
				s.awaitBackup("b", velerov1.BackupPhaseCompleted)
				s.restoreTo("r", "b", shop, shop+"-copy")
				w.awaitNote("begun restore/" + shop + "/first")
				s.eventually("the phase is reached", func(ctx context.Context) (bool, error) {
					var r velerov1.Restore
					err := s.client.Get(ctx, s.key("r"), &r)
					return r.Status.Phase == phase, err
				})
				if way == byDeletion {
					require.NoError(t, s.client.Delete(t.Context(),
						&velerov1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "r"}}))
					s.awaitGone(&velerov1.Restore{}, "r")
					require.Empty(t, s.files("restores/r"))
				} else {
					s.requestCancel(&velerov1.Restore{}, "r")
					if phase == velerov1.RestorePhaseInProgress {
						r := s.awaitRestore("r", velerov1.RestorePhaseFailed)
						require.Contains(t, r.Status.FailureReason, "cancelled on request")
					} else {
						r := s.awaitRestore("r", velerov1.RestorePhasePartiallyFailed)
						require.Equal(t, 1, r.Status.RestoreItemOperationsFailed)
					}
				}
				s.awaitNoJournals()
				require.Equal(t, 1, w.notes()["cancel restore/"+shop+"/first"])
			})
		}
	}
}

// TestAcceptOperations_Orphans leaves operations without anybody who waits for them, while no server runs. The next
// server cancels them.
func TestAcceptOperations_Orphans(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		worker string
		args   []string
		phase  velerov1.BackupPhase // in which the server is killed
		orphan func(s *site, shop string)
		end    velerov1.BackupPhase // "" if the backup is gone
	}{
		"deleted while it waited": {worker: "keyed", phase: velerov1.BackupPhaseWaitingForPluginOperations,
			orphan: func(s *site, _ string) {
				require.NoError(s.t, s.client.Delete(s.t.Context(),
					&velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "b"}}))
			}},
		"deleted in its run": {worker: "keyed", phase: velerov1.BackupPhaseInProgress, orphan: func(s *site, _ string) {
			require.NoError(s.t, s.client.Delete(s.t.Context(),
				&velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "b"}}))
		}},
		"without a key, deleted in its run": {worker: "keyless", phase: velerov1.BackupPhaseInProgress,
			orphan: func(s *site, _ string) {
				require.NoError(s.t, s.client.Delete(s.t.Context(),
					&velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "b"}}))
			}},
		"failed in its only attempt": {
			worker: "keyed", args: []string{"--backup-attempts", "1"}, phase: velerov1.BackupPhaseInProgress, orphan: func(*site,
				string) {
			}, end: velerov1.BackupPhaseFailed,
		},
		"of an attempt before": {worker: "keyed", phase: velerov1.BackupPhaseInProgress, orphan: func(s *site, shop string) {
			for _, item := range []string{"first", "last"} {
				require.NoError(s.t, s.client.Delete(s.t.Context(),
					&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: item}}))
			}
		}, end: velerov1.BackupPhaseCompleted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, "cleat.dev/s3")
			w := s.work()
			args := slices.Concat(w.args, test.args)
			server := s.serve(args...)
			s.available()
			shop := s.workload(1)
			s.item(shop, "first", test.worker, "length", "1h")
			if test.phase == velerov1.BackupPhaseInProgress {
				s.item(shop, "last", "keyed", "as", "hangs in Start")
			}
			s.beginBackupOf("b", shop)
			w.awaitNote("begun backup/" + shop + "/first")
			s.awaitBackup("b", test.phase)
			if test.phase == velerov1.BackupPhaseInProgress {
				s.eventually("the start is recorded", func(ctx context.Context) (bool, error) {
					return s.isRecorded(ctx, "first"),
						nil
				})
			}
			server.kill()
			test.orphan(s, shop)
			s.serve(args...)
			if test.end != "" {
				s.awaitBackup("b", test.end)
			}
			if test.phase == velerov1.BackupPhaseInProgress && test.worker == "keyed" &&
				test.end != velerov1.BackupPhaseCompleted {
				// The plugin never says whether it has started the other one, so the journal stays for an hour.
				w.awaitNote("cancel backup/" + shop + "/first")
			} else {
				s.awaitNoJournals()
			}
			require.Equal(t, 1, w.notes()["cancel backup/"+shop+"/first"])
		})
	}
}

// TestAcceptOperations_FilesOfVelero has backups wait that a stock server has left, and damages the files of others.
func TestAcceptOperations_FilesOfVelero(t *testing.T) {
	t.Parallel()
	operations := func(b *velerov1.Backup, id string) string {
		return fmt.Sprintf(`[{"spec":{"backupName":%q,"backupUID":%q,"backupItemAction":"example.io/keyless","resourceIdentifier":{"Group":"","Resource":"configmaps",
			"Namespace":"NS","Name":"work"},"operationID":%q,"postOperationItems":null,"future":1},"status":{"phase":"InProgress","created":"2026-01-01T00:00:00Z","later":[]}}]`, b.Name, b.UID, id)
	}
	for name, test := range map[string]struct {
		file    func(b *velerov1.Backup, id string) []byte // nil: there is none
		phase   velerov1.BackupPhase
		message string
	}{
		"as it is": {file: func(b *velerov1.Backup, id string) []byte { return zipped(t, operations(b, id)) },
			phase: velerov1.BackupPhaseCompleted},
		"missing": {phase: velerov1.BackupPhasePartiallyFailed, message: "record of its asynchronous operations is lost"},
		"empty": {file: func(*velerov1.Backup, string) []byte { return nil }, phase: velerov1.BackupPhasePartiallyFailed,
			message: "damaged"},
		"truncated": {file: func(b *velerov1.Backup,
			id string) []byte {
			z := zipped(t, operations(b, id))
			return z[:len(z)/2]
		},
			phase: velerov1.BackupPhasePartiallyFailed, message: "damaged"},
		"flipped": {file: func(b *velerov1.Backup, id string) []byte {
			z := zipped(t, operations(b, id))
			z[len(z)-6] ^= 0x55 // of the checksum
			return z
		}, phase: velerov1.BackupPhasePartiallyFailed, message: "damaged"},
		"from the future": {file: func(b *velerov1.Backup, id string) []byte {
			return zipped(t, strings.Replace(operations(b, id), `"InProgress"`, `"Paused"`, 1))
		}, phase: velerov1.BackupPhasePartiallyFailed, message: `phase \"Paused\"`},
		"of another backup": {file: func(b *velerov1.Backup, id string) []byte {
			return zipped(t, strings.Replace(operations(b, id), b.Name, "other", 1))
		}, phase: velerov1.BackupPhasePartiallyFailed, message: "belongs to"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, "cleat.dev/file")
			w := s.work()
			s.veleroMade("stock", nil, false)
			// The stock server has started an operation, whose end it has not seen.
			id := "stock-operation"
			require.NoError(t, os.MkdirAll(filepath.Join(w.dir, "operations"), 0o700))
			started, err := json.Marshal(map[string]any{"ID": id, "Item": "backup/NS/work", "Started": "2026-01-01T00:00:00Z",
				"Length": 1})
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(w.dir, "operations", id), started, 0o600))
			var b velerov1.Backup
			require.NoError(t, s.client.Get(t.Context(), s.key("stock"), &b))
			if test.file != nil {
				require.NoError(t, os.WriteFile(filepath.Join(s.bucketDir, "backups", "stock", "stock-itemoperations.json.gz"),
					test.file(&b, id), 0o600))
			}
			b.Status.Phase, b.Status.BackupItemOperationsAttempted = velerov1.BackupPhaseWaitingForPluginOperations, 1
			require.NoError(t, s.client.Update(t.Context(), &b))
			s.serve(w.args...)
			ended := s.awaitBackup("stock", test.phase)
			if test.message != "" {
				require.Contains(t, s.messages("stock"), test.message)
				require.Equal(t, 1, ended.Status.Errors)
				return
			}
			require.Equal(t, 1, ended.Status.BackupItemOperationsCompleted)
			require.Equal(t, operation.Completed, s.operations(ended)[0].Phase)
			require.Equal(t, map[string]int{"begun backup/NS/work": 1, "ended backup/NS/work": 1}, w.notes())
			s.awaitNoJournals()
		})
	}
	t.Run("damaged, of this server", func(t *testing.T) {
		t.Parallel()
		s := newSite(t, "cleat.dev/file")
		w := s.work()
		server := s.serve(w.args...)
		s.available()
		shop := s.beginWork("b", "keyed", 0, "length", "held")
		s.awaitBackup("b", velerov1.BackupPhaseWaitingForPluginOperations)
		server.kill()
		require.NoError(t, os.WriteFile(filepath.Join(s.bucketDir, "backups", "b", "b-itemoperations.json.gz"),
			[]byte("garbage"), 0o600))
		s.serve(w.args...)
		w.finish()
		b := s.awaitBackup("b", velerov1.BackupPhaseCompleted)
		require.Equal(t, 1, b.Status.BackupItemOperationsCompleted)
		w.requireOnce("backup", shop, "work")
		s.requireWhole(b)
	})
}
