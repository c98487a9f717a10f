package deletions

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/controllertest"
)

// TestDeletionsAreAudited has the line in the log and the event of each request.
func TestDeletionsAreAudited(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, nil)
	started := metav1.NewTime(time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC))
	neverStored := func(b *velerov1.Backup) {
		b.Status = velerov1.BackupStatus{Phase: velerov1.BackupPhaseFailedValidation, StartTimestamp: &started}
		b.Labels, b.Spec.StorageLocation = map[string]string{velerov1.ScheduleNameLabel: "nightly"}, "default"
	}
	c.Add(t,
		controllertest.NewBackup("asked", neverStored), controllertest.NewBackup("expired", neverStored),
		controllertest.NewBackup("busy", func(b *velerov1.Backup) { b.Status.Phase = velerov1.BackupPhaseInProgress }),
		&velerov1.Restore{
			ObjectMeta: metav1.ObjectMeta{Name: "r"}, Spec: velerov1.RestoreSpec{BackupName: "asked"},
			Status: velerov1.RestoreStatus{Phase: velerov1.RestorePhaseCompleted},
		})
	for name, want := range map[string]struct {
		line  map[string]any
		event string // "" for none
	}{
		"asked": {
			map[string]any{"@level": "info", "outcome": "deleted", "why": "requested", "restores": []any{"r"},
				"schedule": "nightly", "location": "default", "started": "2026-03-04T12:00:00Z", "error": ""},
			"Normal BackupDeleted deleted the backup, 1 restore and 0 snapshots; requested by request delete-asked of " +
				"deletions.test",
		},
		"expired": {map[string]any{"@level": "info", "outcome": "deleted", "why": "expired", "restores": nil,
			"location": "default"}, ""},
		"busy": {
			map[string]any{"@level": "warn", "outcome": "refused", "why": "requested", "error": "backup is still in progress"},
			"Warning DeletionRefused backup is still in progress; requested by request delete-busy of deletions.test",
		},
		"none": {map[string]any{"@level": "warn", "outcome": "refused", "why": "requested", "uid": "", "location": "",
			"error": "backup not found"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			request := &velerov1.DeleteBackupRequest{
				ObjectMeta: metav1.ObjectMeta{Name: "delete-" + name}, Spec: velerov1.DeleteBackupRequestSpec{BackupName: name},
			}
			if want.line["why"] == "expired" {
				request.Annotations = map[string]string{velerov1.ExpiredAnnotation: "2026-03-04T12:00:00Z"}
			}
			c.Add(t, request)
			if name != "none" {
				want.line["uid"] = string(c.Backup(t, name).UID)
			}
			var out bytes.Buffer
			recorder := events.NewFakeRecorder(10)
			r := &Controller{
				Cluster: c.Cluster, Stores: controllertest.ClosedStores{}, Events: recorder, Now: time.Now,
				Log: hclog.New(&hclog.LoggerOptions{Output: &out, JSONFormat: true, Name: "server"}),
			}
			_, err := r.Reconcile(t.Context(), c.Request(request.Name))
			require.NoError(t, err)
			line := auditLine(t, out.String())
			for key, value := range want.line {
				if key == "uid" && want.line["outcome"] == "refused" {
					continue // the request has no label yet
				}
				require.Equal(t, value, line[key], key)
			}
			require.Equal(t, request.Name, line["request"])
			require.Equal(t, string(request.UID), line["requestUID"])
			require.Equal(t, "deletions.test", line["requestManager"])
			for _, key := range []string{"backup", "uid", "requestTime", "restores", "snapshots", "schedule", "expiration",
				"filesStay"} {
				require.Contains(t, line, key)
			}
			select {
			case event := <-recorder.Events:
				require.Equal(t, want.event, event)
			default:
				require.Empty(t, want.event)
			}
		})
	}
}

// auditLine returns the line of the audit in a log.
func auditLine(t *testing.T, log string) (found map[string]any) {
	t.Helper()
	for line := range strings.Lines(log) {
		var fields map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &fields))
		if fields["@module"] == "server.audit" {
			require.Nil(t, found, "there is one line")
			found = fields
		}
	}
	require.NotNil(t, found, log)
	return found
}

func TestAuditNamesARestoreOnce(t *testing.T) {
	t.Parallel()
	var a audit
	a.restore("r")
	a.restore("r")
	require.Equal(t, audit{restores: []string{"r"}}, a)
}
