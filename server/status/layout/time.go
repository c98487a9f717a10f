package layout

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

// formatTime is a time as people read it, in UTC.
func FormatTime(t *metav1.Time) string {
	if t == nil || t.IsZero() {
		return "<none>"
	}
	return t.UTC().Format("2006-01-02 15:04:05 -0700 MST")
}

// ago is how long ago a moment was.
func Ago(t metav1.Time, now time.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(max(0, now.Sub(t.Time))) + " ago"
}

// remaining is how far away a moment is.
func Remaining(t *metav1.Time, now time.Time) string {
	if t == nil || t.IsZero() {
		return "n/a"
	}
	if left := t.Sub(now); left > 0 {
		return duration.HumanDuration(left)
	}
	return duration.HumanDuration(now.Sub(t.Time)) + " ago"
}

func SinceTime(t *metav1.Time, now time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return fmt.Sprintf(" since %s (%s)", FormatTime(t), Ago(*t, now))
}
