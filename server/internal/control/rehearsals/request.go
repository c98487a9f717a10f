package rehearsals

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// New returns the Restore that requests a rehearsal of a backup. timeout is how long it waits for the workloads; 0 for
// the server's default.
func New(namespace, name, backup string, timeout time.Duration) *velerov1.Restore {
	restore := &velerov1.Restore{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name,
			Annotations: map[string]string{velerov1.RehearsalAnnotation: velerov1.RehearsalRequested},
		},
		Spec: velerov1.RestoreSpec{BackupName: backup},
		Status: velerov1.RestoreStatus{
			Phase:            velerov1.RestorePhaseFailedValidation,
			ValidationErrors: []string{"rehearsal: no server has begun it yet"},
		},
	}
	if timeout > 0 {
		restore.Annotations[velerov1.RehearsalTimeoutAnnotation] = timeout.String()
	}
	return restore
}

// NameAt returns the name of the rehearsal of a backup that is requested at a time.
func NameAt(of string, at time.Time) string {
	const stamp = "-20060102150405"
	name := of + "-rehearsal"
	if most := validation.DNS1123SubdomainMaxLength - len(stamp); len(name) > most {
		sum := sha256.Sum256([]byte(of))
		tail := "-" + hex.EncodeToString(sum[:4]) + "-rehearsal"
		name = of[:most-len(tail)] + tail
	}
	return name + at.UTC().Format(stamp)
}

// idOf returns the id of a rehearsal, by which its report is named.
func idOf(restore *velerov1.Restore) string {
	sum := sha256.Sum256([]byte(restore.UID))
	return restore.CreationTimestamp.UTC().Format("20060102150405") + "-" + hex.EncodeToString(sum[:4])
}

// timeoutOf returns how long a rehearsal waits for the workloads.
func timeoutOf(restore *velerov1.Restore, otherwise time.Duration) (time.Duration, error) {
	text := restore.Annotations[velerov1.RehearsalTimeoutAnnotation]
	if text == "" {
		return otherwise, nil
	}
	timeout, err := time.ParseDuration(text)
	if err != nil || timeout <= 0 {
		return otherwise, fmt.Errorf("annotation %s is %q, want a duration such as 10m", velerov1.RehearsalTimeoutAnnotation,
			text)
	}
	return timeout, nil
}
