package operations_test

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
	"github.com/cleat-dev/cleat/server/test/site"
)

// TestAcceptOperations_Cancel cancels backups and restores in each phase, by the annotation and by their deletion.
// Each started operation is cancelled once and ends, and nothing stays open.
func TestAcceptOperations_Cancel(t *testing.T) {
	t.Parallel()
	const byAnnotation, byDeletion = "annotation", "deletion"
	for _, phase := range []string{"Queued", "InProgress", "WaitingForPluginOperations"} {
		for _, way := range []string{byAnnotation, byDeletion} {
			t.Run("backup "+phase+" "+way, func(t *testing.T) {
				t.Parallel()
				s := site.New(t, "cleat.dev/s3")
				w := s.Work()
				s.Serve(w.Args...)
				s.Available()
				shop := s.Workload(1)
				s.Item(shop, "first", "keyed", "length", "1h")
				if phase != "WaitingForPluginOperations" {
					s.Item(shop, "last", "keyed", "as", "hangs in Start")
				}
				s.BeginBackupOf("b", shop)
				w.AwaitNote("begun backup/" + shop + "/first")
				name, cancels := "b", 1
				switch phase {
				case "Queued":
					name, cancels = "c", 0
					s.BeginBackupOf(name, s.Workload(1))
					s.AwaitBackup(name, velerov1.BackupPhaseQueued)
				default:
					s.AwaitBackup(name, velerov1.BackupPhase(phase))
				}
				if way == byDeletion {
					require.NoError(t, s.Client.Delete(t.Context(),
						&velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name}}))
					s.AwaitGone(&velerov1.Backup{}, name)
				} else {
					s.RequestCancel(&velerov1.Backup{}, name)
					b := s.AwaitEnd(name)
					if phase == "WaitingForPluginOperations" {
						require.Equal(t, velerov1.BackupPhasePartiallyFailed, b.Status.Phase)
						require.Equal(t, 1, b.Status.BackupItemOperationsFailed)
						require.Contains(t, s.Messages(name), "was cancelled")
						s.RequireWhole(b)
					} else {
						require.Equal(t, velerov1.BackupPhaseFailed, b.Status.Phase)
						require.Contains(t, b.Status.FailureReason, "cancelled on request")
					}
				}
				if phase != "Queued" {
					s.AwaitNoJournals()
				}
				require.Equal(t, cancels, w.Notes()["cancel backup/"+shop+"/first"])
				if way == byDeletion {
					s.Eventually("the files are gone", func(context.Context) (bool, error) {
						if left := s.Files("backups/" + name); len(left) > 0 {
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
				s := site.New(t, "cleat.dev/s3")
				w := s.Work()
				s.Serve(w.Args...)
				s.Available()
				shop := s.Workload(1)
				s.Item(shop, "first", "keyed", "length", "1h", "in", "restore")
				if phase == velerov1.RestorePhaseInProgress {
					s.Item(shop, "last", "keyed", "as", "hangs in Start", "in", "restore")
				}
				s.BeginBackupOf("b", shop)
				s.AwaitBackup("b", velerov1.BackupPhaseCompleted)
				s.RestoreTo("r", "b", shop, shop+"-copy")
				w.AwaitNote("begun restore/" + shop + "/first")
				s.Eventually("the phase is reached", func(ctx context.Context) (bool, error) {
					var r velerov1.Restore
					err := s.Client.Get(ctx, s.Key("r"), &r)
					return r.Status.Phase == phase, err
				})
				if way == byDeletion {
					require.NoError(t, s.Client.Delete(t.Context(),
						&velerov1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "r"}}))
					s.AwaitGone(&velerov1.Restore{}, "r")
					require.Empty(t, s.Files("restores/r"))
				} else {
					s.RequestCancel(&velerov1.Restore{}, "r")
					if phase == velerov1.RestorePhaseInProgress {
						r := s.AwaitRestore("r", velerov1.RestorePhaseFailed)
						require.Contains(t, r.Status.FailureReason, "cancelled on request")
					} else {
						r := s.AwaitRestore("r", velerov1.RestorePhasePartiallyFailed)
						require.Equal(t, 1, r.Status.RestoreItemOperationsFailed)
					}
				}
				s.AwaitNoJournals()
				require.Equal(t, 1, w.Notes()["cancel restore/"+shop+"/first"])
			})
		}
	}
}

// TestAcceptOperations_Orphans leaves operations without an owner that waits for them, while no server runs. The next
// server cancels them.
func TestAcceptOperations_Orphans(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		worker string
		args   []string
		phase  velerov1.BackupPhase // in which the server is killed
		orphan func(s *site.Site, shop string)
		end    velerov1.BackupPhase // "" if the backup was deleted
	}{
		"deleted while it waited": {worker: "keyed", phase: velerov1.BackupPhaseWaitingForPluginOperations,
			orphan: func(s *site.Site, _ string) {
				require.NoError(s.T, s.Client.Delete(s.T.Context(),
					&velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "b"}}))
			}},
		"deleted in its run": {worker: "keyed", phase: velerov1.BackupPhaseInProgress, orphan: func(s *site.Site, _ string) {
			require.NoError(s.T, s.Client.Delete(s.T.Context(),
				&velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "b"}}))
		}},
		"without a key, deleted in its run": {worker: "keyless", phase: velerov1.BackupPhaseInProgress,
			orphan: func(s *site.Site, _ string) {
				require.NoError(s.T, s.Client.Delete(s.T.Context(),
					&velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "b"}}))
			}},
		"failed in its only attempt": {
			worker: "keyed", args: []string{"--backup-attempts", "1"}, phase: velerov1.BackupPhaseInProgress,
			orphan: func(*site.Site, string) {}, end: velerov1.BackupPhaseFailed,
		},
		"of an attempt before": {worker: "keyed", phase: velerov1.BackupPhaseInProgress, orphan: func(s *site.Site,
			shop string) {
			for _, item := range []string{"first", "last"} {
				require.NoError(s.T, s.Client.Delete(s.T.Context(),
					&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: item}}))
			}
		}, end: velerov1.BackupPhaseCompleted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := site.New(t, "cleat.dev/s3")
			w := s.Work()
			args := slices.Concat(w.Args, test.args)
			server := s.Serve(args...)
			s.Available()
			shop := s.Workload(1)
			s.Item(shop, "first", test.worker, "length", "1h")
			if test.phase == velerov1.BackupPhaseInProgress {
				s.Item(shop, "last", "keyed", "as", "hangs in Start")
			}
			s.BeginBackupOf("b", shop)
			w.AwaitNote("begun backup/" + shop + "/first")
			s.AwaitBackup("b", test.phase)
			if test.phase == velerov1.BackupPhaseInProgress {
				s.Eventually("the start is recorded", func(ctx context.Context) (bool, error) {
					return isRecorded(ctx, s, "first"), nil
				})
			}
			server.Kill()
			test.orphan(s, shop)
			s.Serve(args...)
			if test.end != "" {
				s.AwaitBackup("b", test.end)
			}
			if test.phase == velerov1.BackupPhaseInProgress && test.worker == "keyed" &&
				test.end != velerov1.BackupPhaseCompleted {
				// The plugin never reports whether it has started the other one, so the journal stays for an hour.
				w.AwaitNote("cancel backup/" + shop + "/first")
			} else {
				s.AwaitNoJournals()
			}
			require.Equal(t, 1, w.Notes()["cancel backup/"+shop+"/first"])
		})
	}
}

// TestAcceptOperations_FilesOfVelero has waiting backups of a stock server, and damages the files of others.
func TestAcceptOperations_FilesOfVelero(t *testing.T) {
	t.Parallel()
	operations := func(b *velerov1.Backup, id string) string {
		return fmt.Sprintf(`[{"spec":{"backupName":%q,"backupUID":%q,"backupItemAction":"example.io/keyless","resourceIdentifier":{"Group":"","Resource":"configmaps",
			"Namespace":"NS","Name":"work"},"operationID":%q,"postOperationItems":null,"future":1},"status":{"phase":"InProgress","created":"2026-01-01T00:00:00Z","later":[]}}]`, b.Name, b.UID, id)
	}
	for name, test := range map[string]struct {
		file    func(b *velerov1.Backup, id string) []byte // nil for no file
		phase   velerov1.BackupPhase
		message string
	}{
		"as it is": {file: func(b *velerov1.Backup, id string) []byte { return site.Zipped(t, operations(b, id)) },
			phase: velerov1.BackupPhaseCompleted},
		"missing": {phase: velerov1.BackupPhasePartiallyFailed, message: "record of its asynchronous operations is lost"},
		"empty": {file: func(*velerov1.Backup, string) []byte { return nil }, phase: velerov1.BackupPhasePartiallyFailed,
			message: "damaged"},
		"truncated": {file: func(b *velerov1.Backup, id string) []byte {
			z := site.Zipped(t, operations(b, id))
			return z[:len(z)/2]
		},
			phase: velerov1.BackupPhasePartiallyFailed, message: "damaged"},
		"flipped": {file: func(b *velerov1.Backup, id string) []byte {
			z := site.Zipped(t, operations(b, id))
			z[len(z)-6] ^= 0x55 // of the checksum
			return z
		}, phase: velerov1.BackupPhasePartiallyFailed, message: "damaged"},
		"from the future": {file: func(b *velerov1.Backup, id string) []byte {
			return site.Zipped(t, strings.Replace(operations(b, id), `"InProgress"`, `"Paused"`, 1))
		}, phase: velerov1.BackupPhasePartiallyFailed, message: `phase \"Paused\"`},
		"of another backup": {file: func(b *velerov1.Backup, id string) []byte {
			return site.Zipped(t, strings.Replace(operations(b, id), b.Name, "other", 1))
		}, phase: velerov1.BackupPhasePartiallyFailed, message: "belongs to"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := site.New(t, "cleat.dev/file")
			w := s.Work()
			s.VeleroMade("stock", nil, false)
			// The stock server has started an operation, but not recorded its end.
			id := "stock-operation"
			require.NoError(t, os.MkdirAll(filepath.Join(w.Dir, "operations"), 0o700))
			started, err := json.Marshal(map[string]any{"ID": id, "Item": "backup/NS/work", "Started": "2026-01-01T00:00:00Z",
				"Length": 1})
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(w.Dir, "operations", id), started, 0o600))
			var b velerov1.Backup
			require.NoError(t, s.Client.Get(t.Context(), s.Key("stock"), &b))
			if test.file != nil {
				require.NoError(t, os.WriteFile(filepath.Join(s.BucketDir, "backups", "stock", "stock-itemoperations.json.gz"),
					test.file(&b, id), 0o600))
			}
			b.Status.Phase, b.Status.BackupItemOperationsAttempted = velerov1.BackupPhaseWaitingForPluginOperations, 1
			require.NoError(t, s.Client.Update(t.Context(), &b))
			s.Serve(w.Args...)
			ended := s.AwaitBackup("stock", test.phase)
			if test.message != "" {
				require.Contains(t, s.Messages("stock"), test.message)
				require.Equal(t, 1, ended.Status.Errors)
				return
			}
			require.Equal(t, 1, ended.Status.BackupItemOperationsCompleted)
			require.Equal(t, operation.Completed, s.Operations(ended)[0].Phase)
			require.Equal(t, map[string]int{"begun backup/NS/work": 1, "ended backup/NS/work": 1}, w.Notes())
			s.AwaitNoJournals()
		})
	}
	t.Run("damaged, of this server", func(t *testing.T) {
		t.Parallel()
		s := site.New(t, "cleat.dev/file")
		w := s.Work()
		server := s.Serve(w.Args...)
		s.Available()
		shop := s.BeginWork("b", "keyed", 0, "length", "held")
		s.AwaitBackup("b", velerov1.BackupPhaseWaitingForPluginOperations)
		server.Kill()
		require.NoError(t, os.WriteFile(filepath.Join(s.BucketDir, "backups", "b", "b-itemoperations.json.gz"),
			[]byte("garbage"), 0o600))
		s.Serve(w.Args...)
		w.Finish()
		b := s.AwaitBackup("b", velerov1.BackupPhaseCompleted)
		require.Equal(t, 1, b.Status.BackupItemOperationsCompleted)
		w.RequireOnce("backup", shop, "work")
		s.RequireWhole(b)
	})
}
