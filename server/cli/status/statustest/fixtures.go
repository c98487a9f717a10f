package statustest

import (
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
)

// InQueue returns a Backup that was created the given number of minutes before noon.
func InQueue(name string, phase velerov1.BackupPhase, minutes int) *velerov1.Backup {
	b := &velerov1.Backup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "velero", Name: name,
			CreationTimestamp: *At(-time.Duration(minutes) * time.Minute)},
		Status: velerov1.BackupStatus{Phase: phase},
	}
	if phase == velerov1.BackupPhaseInProgress {
		b.Status.StartTimestamp = At(-time.Duration(minutes-1) * time.Minute)
	}
	return b
}

// Waiting returns a Backup with the reason for which it waits.
func Waiting(name string, position, minutes int, wait velerov1.QueueWait) *velerov1.Backup {
	b := InQueue(name, velerov1.BackupPhaseQueued, minutes)
	b.Status.QueuePosition = position
	if wait.Reason != "PolicyFailed" {
		wait.Policy = "example.io/policy"
	}
	wait.Since = *At(-time.Duration(minutes-2) * time.Minute)
	text, _ := json.Marshal(wait)
	b.Annotations = map[string]string{velerov1.QueueWaitAnnotation: string(text)}
	return b
}

// Queue returns a queue with a backup in every state, in disorder.
func Queue() []*velerov1.Backup {
	unreadable := Waiting("unreadable", 5, 10, velerov1.QueueWait{})
	unreadable.Annotations[velerov1.QueueWaitAnnotation] = "{"
	going := InQueue("going", velerov1.BackupPhaseQueued, 50)
	going.DeletionTimestamp = At(0)
	going.Status.QueuePosition = 9
	return []*velerov1.Backup{
		InQueue("fresh", "", 1),
		Waiting("fourth", 4, 20, velerov1.QueueWait{Reason: "Freeze", Message: "no backups\x1b[2J before\n18:00"}),
		Waiting("third", 3, 30, velerov1.QueueWait{Reason: "Limit", Message: "the limit of 2 running backups is reached"}),
		Waiting("second", 2, 40, velerov1.QueueWait{
			Reason: "NamespaceOverlap", Message: "shares namespace shop with first, which is ahead of it in the queue; in its " +
				"way too: a, b, c, d",
			Blockers: []string{"first", "runs", "c", "d", "e"}, Namespaces: []string{"shop"},
		}),
		unreadable,
		InQueue("done", velerov1.BackupPhaseCompleted, 100),
		InQueue("finishing", velerov1.BackupPhaseFinalizing, 90),
		going,
		InQueue("ready", velerov1.BackupPhaseReadyToStart, 45),
		Waiting("first", 1, 55, velerov1.QueueWait{
			Reason: "NamespaceOverlap", Message: "shares namespaces billing, shop with runs, which runs",
			Blockers: []string{"runs"}, Namespaces: []string{"billing", "shop"},
		}),
		InQueue("runs", velerov1.BackupPhaseInProgress, 60),
	}
}

// Policy returns a policy that has failed since five minutes before noon for the given reason, without a replacement.
// Without a reason it works.
func Policy(reason string) *serverreport.Policy {
	status := &serverreport.Policy{Kind: "QueueAdmission", Plugin: "example.io/policy", FailurePolicy: "Hold",
		Decides: "example.io/policy", Since: At(-5 * time.Minute).Time}
	if reason != "" {
		status.Decides, status.Reason, status.Failures = "", reason, 3
		status.Message = "QueueAdmission(example.io/policy): it is\ndown"
	}
	return status
}
