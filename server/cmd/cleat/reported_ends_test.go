package main_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// censor stands in front of S3 and refuses some requests.
type censor struct {
	mu      sync.Mutex
	refuses func(r *http.Request) bool
}

func (c *censor) set(refuses func(r *http.Request) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refuses = refuses
}

func (c *censor) refused(r *http.Request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refuses != nil && c.refuses(r)
}

// newCensoredSite returns a site whose server reaches S3 through a censor.
func newCensoredSite(t *testing.T) (*site, *censor) {
	t.Helper()
	s, c := newSite(t, "cleat.dev/s3"), &censor{}
	to, err := url.Parse(s.cluster.S3.Endpoint)
	require.NoError(t, err)
	proxy := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host // requests are signed for it
	}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c.refused(r) {
			w.Header().Set("Content-Type", "application/xml")
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte("<Error><Code>AccessDenied</Code><Message>the object is locked</Message></Error>"))
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	var location velerov1.BackupStorageLocation
	require.NoError(t, s.client.Get(t.Context(), s.key("default"), &location))
	location.Spec.Config["s3Url"] = server.URL
	require.NoError(t, s.client.Update(t.Context(), &location))
	return s, c
}

// rewrites returns what matches each write of a key that was written before.
func rewrites() func(r *http.Request) bool {
	written := map[string]bool{}
	return func(r *http.Request) bool {
		if r.Method != http.MethodPut || r.URL.Query().Has("partNumber") {
			return false
		}
		before := written[r.URL.Path]
		written[r.URL.Path] = true
		return before
	}
}

// TestAcceptFaults_EndsAreExplained shows that what does not end says why, and that what has ended is described as long
// as it exists.
func TestAcceptFaults_EndsAreExplained(t *testing.T) {
	t.Parallel()
	t.Run("a backup whose deletion failed can be restored and says why", restoredAfterFailedDeletion)
	t.Run("metrics of a schedule survive a restart", metricsSurvive)
	t.Run("metrics of a schedule end with it and its backups", metricsEnd)
	t.Run("a long name of a schedule is the same in all metrics", longNameInMetrics)
	t.Run("a backup that is refused says why and ends", refusedBackupEnds)
	t.Run("a backup whose operations have ended is refused, says why and ends", refusedOperationsEnd)
	t.Run("a refused backup ends after a restart, too", refusedBackupEndsAfterRestart)
}

func restoredAfterFailedDeletion(t *testing.T) {
	t.Parallel()
	s, censor := newCensoredSite(t)
	s.shop = s.workload(3)
	s.serve()
	s.available()
	s.wholeBackup("")
	censor.set(func(r *http.Request) bool {
		return r.Method == http.MethodDelete || r.Method == http.MethodPost && r.URL.Query().Has("delete")
	})
	s.beginDeletion("whole")
	s.eventually("the deletion has failed", func(ctx context.Context) (bool, error) {
		var request velerov1.DeleteBackupRequest
		err := s.client.Get(ctx, s.key("whole"), &request)
		return request.Status.Phase == velerov1.DeleteBackupRequestPhaseProcessed, err
	})
	require.Equal(t, velerov1.BackupPhaseDeleting, s.awaitBackup("whole", velerov1.BackupPhaseDeleting).Status.Phase)
	require.Len(t, s.files("backups/whole"), 10)

	// The request is deleted after a day, and the reason is not.
	require.NoError(t, s.client.Delete(t.Context(),
		&velerov1.DeleteBackupRequest{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "whole"}}))
	described := s.must("backup", "describe", "whole")
	require.Regexp(t, `Deletion failed: .*velero-backup.json.*the object is locked`, described)

	s.beginRestore("back")
	s.checkRestore("back")
	require.NotEmpty(t, s.must("backup", "logs", "whole"))

	censor.set(nil)
	s.must("backup", "delete", "whole", "--confirm", "--wait")
	s.checkDeleted("whole")
}

// backedUpBySchedule creates a schedule and a backup of it that has ended.
func (s *site) backedUpBySchedule(schedule string) {
	s.t.Helper()
	s.must("schedule", "create", schedule, "--schedule", "@yearly", "--include-namespaces", s.shop)
	s.must("backup", "create", "b", "--from-schedule", schedule, "--wait")
}

// aboutSchedule are metrics that a schedule has while it or backups of it exist.
func aboutSchedule(label string) []string {
	label = `{schedule="` + label + `"} `
	return []string{"velero_backup_last_status" + label + "1", "velero_backup_last_successful_timestamp" + label + ".*",
		"velero_schedule_expected_interval_seconds" + label + ".*"}
}

func metricsSurvive(t *testing.T) {
	t.Parallel()
	s := newSite(t, "cleat.dev/file")
	s.shop = s.workload(1)
	v := s.serve("--metrics-address", "127.0.0.1:0")
	s.available()
	s.backedUpBySchedule("nightly")
	v.measures(aboutSchedule("nightly")...)
	v.kill()
	v = s.serve("--metrics-address", "127.0.0.1:0")
	v.measures(append(aboutSchedule("nightly"), `velero_backup_items_total{schedule="nightly"} [1-9]\d*`)...)
}

func metricsEnd(t *testing.T) {
	t.Parallel()
	s := newSite(t, "cleat.dev/file")
	s.shop = s.workload(1)
	v := s.serve("--metrics-address", "127.0.0.1:0")
	s.available()
	s.backedUpBySchedule("nightly")
	v.measures(aboutSchedule("nightly")...)
	s.must("schedule", "delete", "nightly", "--confirm")
	v.measures(aboutSchedule("nightly")[:2]...)
	s.must("backup", "delete", "b", "--confirm", "--wait")
	s.eventually("no metric is left", func(context.Context) (bool, error) {
		return !strings.Contains(v.metrics(), `schedule="nightly"`), nil
	})
}

func longNameInMetrics(t *testing.T) {
	t.Parallel()
	s := newSite(t, "cleat.dev/file")
	s.shop = s.workload(1)
	v := s.serve("--metrics-address", "127.0.0.1:0")
	s.available()
	name := strings.Repeat("nightly-", 10) + "end"
	s.backedUpBySchedule(name)
	s.must("restore", "create", "r", "--from-schedule", name, "--wait")
	v.measures(aboutSchedule(velerov1.ValidLabelValue(name))...)
	v.measures(`velero_restore_success_total{schedule="` + velerov1.ValidLabelValue(name) + `"} 1`)
	require.NotContains(t, v.metrics(), name)
}

func refusedBackupEnds(t *testing.T) {
	t.Parallel()
	s, censor := newCensoredSite(t)
	s.shop = s.workload(3)
	censor.set(rewrites())
	s.serve("--store-outage-timeout", "10s")
	s.available()
	s.beginBackup("whole")
	s.eventually("the reason is shown", func(context.Context) (bool, error) {
		out, _, err := s.run("backup", "describe", "whole")
		return err == nil && strings.Contains(out, "the object store to accept the last files") &&
			strings.Contains(out, "the object is locked"), nil
	})
	b := s.awaitBackup("whole", velerov1.BackupPhasePartiallyFailed)
	require.Regexp(t, `^finalize the backup: .*velero-backup.json.*the object is locked`, b.Status.FailureReason)
	require.Empty(t, b.Annotations[velerov1.WaitsAnnotation])
	require.Contains(t, s.must("backup", "describe", "whole"), "the object is locked")

	censor.set(nil)
	s.beginRestore("back")
	s.checkRestore("back")
}

func refusedBackupEndsAfterRestart(t *testing.T) {
	t.Parallel()
	s, censor := newCensoredSite(t)
	s.shop = s.workload(3)
	censor.set(rewrites())
	v := s.serve("--store-outage-timeout", "1h")
	s.available()
	s.beginBackup("whole")
	b := s.awaitBackup("whole", velerov1.BackupPhaseFinalizing)
	s.eventually("the time of the refusal is stored", func(ctx context.Context) (bool, error) {
		err := s.client.Get(ctx, client.ObjectKeyFromObject(b), b)
		return b.Annotations[velerov1.WaitsAnnotation] != "", err
	})
	v.kill()

	waits, err := velerov1.WaitsOf(b)
	require.NoError(t, err)
	waits.Oldest[0].Since = metav1.NewTime(time.Now().Add(-2 * time.Hour))
	s.setWaits(b, waits)
	s.serve("--store-outage-timeout", "1h")
	s.awaitBackup("whole", velerov1.BackupPhasePartiallyFailed)
}

// refusedOperationsEnd shows the same for the file of operations, which is written again when they have ended.
func refusedOperationsEnd(t *testing.T) {
	t.Parallel()
	s, censor := newCensoredSite(t)
	w := s.work()
	censor.set(rewrites())
	s.serve(append(w.args, "--store-outage-timeout", "10s")...)
	s.available()
	s.beginWork("b", "keyed", 0, "length", "held", "after", "none")
	s.awaitBackup("b", velerov1.BackupPhaseWaitingForPluginOperations)
	w.finish()
	s.eventually("the reason is shown", func(context.Context) (bool, error) {
		out, _, err := s.run("backup", "describe", "b")
		return err == nil && strings.Contains(out, "WaitingForPluginOperations") &&
			strings.Contains(out, "the object is locked"), nil
	})
	b := s.awaitBackup("b", velerov1.BackupPhasePartiallyFailed)
	require.Contains(t, b.Status.FailureReason, "the object is locked")
	require.Equal(t, 1, b.Status.BackupItemOperationsCompleted)
	s.awaitNoJournals()
}

// setWaits writes what a backup waits for.
func (s *site) setWaits(b *velerov1.Backup, waits *velerov1.Waits) {
	s.t.Helper()
	text, err := json.Marshal(waits)
	require.NoError(s.t, err)
	before := b.DeepCopy()
	b.Annotations[velerov1.WaitsAnnotation] = string(text)
	require.NoError(s.t, s.client.Patch(s.t.Context(), b, client.MergeFrom(before)))
}
