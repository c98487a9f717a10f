package faults_test

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
	"github.com/cleat-dev/cleat/server/test/site"
)

// censor is a proxy of S3 that refuses some requests.
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
func newCensoredSite(t *testing.T) (*site.Site, *censor) {
	t.Helper()
	s, c := site.New(t, "cleat.dev/s3"), &censor{}
	to, err := url.Parse(s.Cluster.S3.Endpoint)
	require.NoError(t, err)
	proxy := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host // the signature of requests covers it
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
	require.NoError(t, s.Client.Get(t.Context(), s.Key("default"), &location))
	location.Spec.Config["s3Url"] = server.URL
	require.NoError(t, s.Client.Update(t.Context(), &location))
	return s, c
}

// rewrites returns a matcher of writes whose key was written before.
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

// TestAcceptFaults_EndsAreExplained shows that an object that does not end has a reason, and that an object that has
// ended is described as long as it exists.
func TestAcceptFaults_EndsAreExplained(t *testing.T) {
	t.Parallel()
	t.Run("a backup whose deletion failed can be restored and says why", restoredAfterFailedDeletion)
	t.Run("metrics of a schedule survive a restart", metricsSurvive)
	t.Run("metrics of a schedule end with it and its backups", metricsEnd)
	t.Run("a long name of a schedule is the same in all metrics", longNameInMetrics)
	t.Run("a backup that is refused says why and ends", refusedBackupEnds)
	t.Run("a backup whose operations have ended is refused, says why and ends", refusedOperationsEnd)
	t.Run("a refused backup ends after a restart, too", refusedBackupEndsAfterRestart)
	t.Run("a backup that is not published fails", unpublishedBackupFails)
}

func restoredAfterFailedDeletion(t *testing.T) {
	t.Parallel()
	s, censor := newCensoredSite(t)
	s.Shop = s.Workload(3)
	s.Serve()
	s.Available()
	s.WholeBackup("")
	censor.set(func(r *http.Request) bool {
		return r.Method == http.MethodDelete || r.Method == http.MethodPost && r.URL.Query().Has("delete")
	})
	s.BeginDeletion("whole")
	s.Eventually("the deletion has failed", func(ctx context.Context) (bool, error) {
		var request velerov1.DeleteBackupRequest
		err := s.Client.Get(ctx, s.Key("whole"), &request)
		return request.Status.Phase == velerov1.DeleteBackupRequestPhaseProcessed, err
	})
	require.Equal(t, velerov1.BackupPhaseDeleting, s.AwaitBackup("whole", velerov1.BackupPhaseDeleting).Status.Phase)
	require.Len(t, s.Files("backups/whole"), 12)

	// The request is deleted after a day, and the reason remains.
	require.NoError(t, s.Client.Delete(t.Context(),
		&velerov1.DeleteBackupRequest{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "whole"}}))
	described := s.Must("backup", "describe", "whole")
	require.Regexp(t, `Deletion failed: .*velero-backup.json.*the object is locked`, described)

	s.BeginRestore("back")
	s.CheckRestore("back")
	require.NotEmpty(t, s.Must("backup", "logs", "whole"))

	censor.set(nil)
	s.Must("backup", "delete", "whole", "--confirm", "--wait")
	s.CheckDeleted("whole")
}

// backedUpBySchedule creates a schedule and a backup of it that has ended.
func backedUpBySchedule(s *site.Site, schedule string) {
	s.T.Helper()
	s.Must("schedule", "create", schedule, "--schedule", "@yearly", "--include-namespaces", s.Shop)
	s.Must("backup", "create", "b", "--from-schedule", schedule, "--wait")
}

// aboutSchedule returns metrics that a schedule has while it or its backups exist.
func aboutSchedule(label string) []string {
	label = `{schedule="` + label + `"} `
	return []string{"velero_backup_last_status" + label + "1", "velero_backup_last_successful_timestamp" + label + ".*",
		"velero_schedule_expected_interval_seconds" + label + ".*"}
}

func metricsSurvive(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	s.Shop = s.Workload(1)
	v := s.Serve("--metrics-address", "127.0.0.1:0")
	s.Available()
	backedUpBySchedule(s, "nightly")
	v.Measures(aboutSchedule("nightly")...)
	v.Kill()
	v = s.Serve("--metrics-address", "127.0.0.1:0")
	v.Measures(append(aboutSchedule("nightly"), `velero_backup_items_total{schedule="nightly"} [1-9]\d*`)...)
}

func metricsEnd(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	s.Shop = s.Workload(1)
	v := s.Serve("--metrics-address", "127.0.0.1:0")
	s.Available()
	backedUpBySchedule(s, "nightly")
	v.Measures(aboutSchedule("nightly")...)
	s.Must("schedule", "delete", "nightly", "--confirm")
	v.Measures(aboutSchedule("nightly")[:2]...)
	s.Must("backup", "delete", "b", "--confirm", "--wait")
	s.Eventually("no metric is left", func(context.Context) (bool, error) {
		return !strings.Contains(v.Metrics(), `schedule="nightly"`), nil
	})
}

func longNameInMetrics(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	s.Shop = s.Workload(1)
	v := s.Serve("--metrics-address", "127.0.0.1:0")
	s.Available()
	name := strings.Repeat("nightly-", 10) + "end"
	backedUpBySchedule(s, name)
	s.Must("restore", "create", "r", "--from-schedule", name, "--wait")
	v.Measures(aboutSchedule(velerov1.ValidLabelValue(name))...)
	v.Measures(`velero_restore_success_total{schedule="` + velerov1.ValidLabelValue(name) + `"} 1`)
	require.NotContains(t, v.Metrics(), name)
}

func refusedBackupEnds(t *testing.T) {
	t.Parallel()
	s, censor := newCensoredSite(t)
	s.Shop = s.Workload(3)
	censor.set(rewrites())
	s.Serve("--store-outage-timeout", "10s")
	s.Available()
	s.BeginBackup("whole")
	s.Eventually("the reason is shown", func(context.Context) (bool, error) {
		out, _, err := s.Run("backup", "describe", "whole")
		return err == nil && strings.Contains(out, "the object store to accept the last files") &&
			strings.Contains(out, "the object is locked"), nil
	})
	b := s.AwaitBackup("whole", velerov1.BackupPhasePartiallyFailed)
	require.Regexp(t, `^finalize the backup: .*-checksums.json.*the object is locked`, b.Status.FailureReason)
	require.Empty(t, b.Annotations[velerov1.WaitsAnnotation])
	require.Contains(t, s.Must("backup", "describe", "whole"), "the object is locked")

	censor.set(nil)
	s.BeginRestore("back")
	s.CheckRestore("back")
}

func unpublishedBackupFails(t *testing.T) {
	t.Parallel()
	s, censor := newCensoredSite(t)
	s.Shop = s.Workload(3)
	s.ChangeLocation(func(l *velerov1.BackupStorageLocation) {
		metav1.SetMetaDataAnnotation(&l.ObjectMeta, velerov1.WriteOnceAnnotation, "true")
	})
	censor.set(func(r *http.Request) bool {
		return r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/whole/whole.tar.gz")
	})
	s.Serve("--store-outage-timeout", "5s")
	s.Available()
	s.BeginBackup("whole")
	b := s.AwaitBackup("whole", velerov1.BackupPhaseFailed)
	require.Regexp(t, `^finalize the backup: publish .*the object is locked.*; the files of the backup were not published`,
		b.Status.FailureReason)
	require.NotContains(t, s.Files("backups/whole"), "velero-backup.json", "nobody takes it for a backup")
	require.Contains(t, s.Must("backup", "logs", "whole"), "backup stored")
	s.BeginRestore("back")
	s.AwaitRestore("back", velerov1.RestorePhaseFailedValidation)

	censor.set(nil)
	s.Must("backup", "delete", "whole", "--confirm", "--wait")
	require.Empty(t, s.Files("backups/whole"))
}

func refusedBackupEndsAfterRestart(t *testing.T) {
	t.Parallel()
	s, censor := newCensoredSite(t)
	s.Shop = s.Workload(3)
	censor.set(rewrites())
	v := s.Serve("--store-outage-timeout", "1h")
	s.Available()
	s.BeginBackup("whole")
	b := s.AwaitBackup("whole", velerov1.BackupPhaseFinalizing)
	s.Eventually("the time of the refusal is stored", func(ctx context.Context) (bool, error) {
		err := s.Client.Get(ctx, client.ObjectKeyFromObject(b), b)
		return b.Annotations[velerov1.WaitsAnnotation] != "", err
	})
	v.Kill()

	waits, err := velerov1.WaitsOf(b)
	require.NoError(t, err)
	waits.Oldest[0].Since = metav1.NewTime(time.Now().Add(-2 * time.Hour))
	setWaits(s, b, waits)
	s.Serve("--store-outage-timeout", "1h")
	s.AwaitBackup("whole", velerov1.BackupPhasePartiallyFailed)
}

// refusedOperationsEnd shows the same for the file of operations, which is written again when they have ended.
func refusedOperationsEnd(t *testing.T) {
	t.Parallel()
	s, censor := newCensoredSite(t)
	w := s.Work()
	censor.set(rewrites())
	s.Serve(append(w.Args, "--store-outage-timeout", "10s")...)
	s.Available()
	s.BeginWork("b", "keyed", 0, "length", "held", "after", "none")
	s.AwaitBackup("b", velerov1.BackupPhaseWaitingForPluginOperations)
	w.Finish()
	s.Eventually("the reason is shown", func(context.Context) (bool, error) {
		out, _, err := s.Run("backup", "describe", "b")
		return err == nil && strings.Contains(out, "WaitingForPluginOperations") &&
			strings.Contains(out, "the object is locked"), nil
	})
	b := s.AwaitBackup("b", velerov1.BackupPhasePartiallyFailed)
	require.Contains(t, b.Status.FailureReason, "the object is locked")
	require.Equal(t, 1, b.Status.BackupItemOperationsCompleted)
	s.AwaitNoJournals()
}

// setWaits writes the waits of a backup.
func setWaits(s *site.Site, b *velerov1.Backup, waits *velerov1.Waits) {
	s.T.Helper()
	text, err := json.Marshal(waits)
	require.NoError(s.T, err)
	before := b.DeepCopy()
	b.Annotations[velerov1.WaitsAnnotation] = string(text)
	require.NoError(s.T, s.Client.Patch(s.T.Context(), b, client.MergeFrom(before)))
}
