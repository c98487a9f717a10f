package deletions

import (
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/kube/shorten"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
)

// Outcomes of a request in the audit.
const (
	outcomeDeleted = "deleted"
	outcomeRefused = "refused" // nothing was deleted
	outcomeFailed  = "failed"  // some of it may be
)

// maxReason is the length of a reason in an event, whose note may have 1 kB.
const maxReason = 512

// audit is what is recorded of a request to delete a backup. A controller cannot know the user who made the request:
// the audit log of the API server has the user, under the name and UID that are recorded here.
type audit struct {
	request   *velerov1.DeleteBackupRequest
	backup    *velerov1.Backup // nil if it was not found
	restores  []string         // that were deleted with it
	snapshots []string
	kept      []string // what files name outside of the bucket, and what is not proven to be the backup's
	unread    []string // files that are damaged, and files that stay for that reason
	foreign   bool     // whether the files stay, because they are those of another backup
}

// restore adds a restore, once.
func (a *audit) restore(name string) {
	for _, known := range a.restores {
		if known == name {
			return
		}
	}
	a.restores = append(a.restores, name)
}

// report writes one line to the log. It also records an event, unless an expired backup was deleted: backups may expire
// by the thousand.
func (a *audit) report(log hclog.Logger, recorder events.EventRecorder, outcome string, err error) {
	manager, why := requester(a.request), "requested"
	if a.request.Annotations[velerov1.ExpiredAnnotation] != "" {
		why = "expired"
	}
	fields := []any{
		"outcome", outcome, "backup", a.request.Spec.BackupName, "uid", a.request.Labels[velerov1.BackupUIDLabel], "why", why,
		"request", a.request.Name, "requestUID", a.request.UID, "requestManager", manager, "requestTime",
		a.request.CreationTimestamp.UTC().Format(time.RFC3339),
		"restores", a.restores, "snapshots", a.snapshots,
	}
	location, schedule, started, expiration := "", "", "", ""
	if b := a.backup; b != nil {
		location, schedule = b.Spec.StorageLocation, b.Labels[velerov1.ScheduleNameLabel]
		started, expiration = rfc3339(b.Status.StartTimestamp), rfc3339(b.Status.Expiration)
	}
	fields = append(fields, "location", location, "schedule", schedule, "started", started, "expiration", expiration,
		"filesStay", a.foreign, "unread", a.unread)
	log = log.Named("audit")
	if err == nil {
		log.Info("deletion of a backup", append(fields, "error", "")...)
	} else {
		log.Warn("deletion of a backup", append(fields, "error", err.Error())...)
	}
	if recorder == nil || a.backup == nil || outcome == outcomeDeleted && why == "expired" {
		return
	}
	reason := ""
	if err != nil {
		reason = shorten.Text(err.Error(), maxReason)
	}
	by := fmt.Sprintf("%s by request %s of %s", why, a.request.Name, manager)
	switch outcome {
	case outcomeDeleted:
		recorder.Eventf(a.backup, a.request, corev1.EventTypeNormal, "BackupDeleted", "Deletion",
			"deleted the backup, %s and %s; %s",
			layout.Count(len(a.restores), "restore"), layout.Count(len(a.snapshots), "snapshot"), by)
	case outcomeRefused:
		recorder.Eventf(a.backup, a.request, corev1.EventTypeWarning, "DeletionRefused", "Deletion", "%s; %s", reason, by)
	default:
		recorder.Eventf(a.backup, a.request, corev1.EventTypeWarning, "DeletionFailed", "Deletion", "%s; %s", reason, by)
	}
}

// requester returns the name of the client that has created an object, its first field manager; "unknown" if there is
// none.
func requester(o metav1.Object) string {
	manager, first := "unknown", (*metav1.Time)(nil)
	for _, entry := range o.GetManagedFields() {
		if entry.Time != nil && (first == nil || entry.Time.Before(first)) {
			manager, first = entry.Manager, entry.Time
		}
	}
	return manager
}

func rfc3339(t *metav1.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
