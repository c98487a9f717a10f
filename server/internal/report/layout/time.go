package layout

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

// FormatTime returns a time in UTC, and "<none>" for none.
func FormatTime(t *metav1.Time) string { return TimeOr(t, "<none>") }

// TimeOr returns a time in UTC, and none if there is no time.
func TimeOr(t *metav1.Time, none string) string {
	if t == nil || t.IsZero() {
		return none
	}
	return t.UTC().Format("2006-01-02 15:04:05 -0700 MST")
}

// Ago returns how long ago t was, such as "5m ago".
func Ago(t metav1.Time, now time.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(max(0, now.Sub(t.Time))) + " ago"
}

// Remaining returns how far away t is, such as "29d", or how long ago it was.
func Remaining(t *metav1.Time, now time.Time) string {
	if t == nil || t.IsZero() {
		return "n/a"
	}
	if left := t.Sub(now); left > 0 {
		return duration.HumanDuration(left)
	}
	return duration.HumanDuration(now.Sub(t.Time)) + " ago"
}

// SinceTime returns t as a part of a sentence, such as " since ... (5m ago)"; empty for none.
func SinceTime(t *metav1.Time, now time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return fmt.Sprintf(" since %s (%s)", FormatTime(t), Ago(*t, now))
}
