package main

import (
	"slices"
	"time"

	qav1 "github.com/cleat-dev/cleat/framework/queueadmission/v1"
)

// open reports whether the window is open at a time, and returns its end. A window that began yesterday may last until
// today.
func (w window) open(at time.Time) (until time.Time, open bool) {
	for _, first := range []time.Time{at, at.AddDate(0, 0, -1)} {
		if len(w.Days) > 0 && !slices.Contains(w.Days, day(first.Weekday())) {
			continue
		}
		from, to := w.From.on(first), w.To.on(first)
		if w.To <= w.From {
			to = w.To.on(first.AddDate(0, 0, 1))
		}
		if !at.Before(from) && at.Before(to) {
			return to, true
		}
	}
	return time.Time{}, false
}

// isFor reports whether the window is for a backup.
func (w window) isFor(backup *qav1.Backup, team string) bool {
	if len(w.Teams)+len(w.Namespaces) == 0 || team != "" && slices.Contains(w.Teams, team) {
		return true
	}
	if backup.AllNamespaces && len(w.Namespaces) > 0 {
		return true // including namespaces created later
	}
	return slices.ContainsFunc(w.Namespaces,
		func(p pattern) bool { return slices.ContainsFunc(backup.Namespaces, p.fits) })
}

// frozen returns the time until which a backup may not start, because of one window or several consecutive ones, or
// the zero time if it may. At is in the zone of the windows.
func (c *config) frozen(backup *qav1.Backup, at time.Time) time.Time {
	team, until := c.team(backup.Labels), time.Time{}
	for range 7 * max(1, len(c.Freeze)) { // windows may follow each other around the week without end
		next := at
		if !until.IsZero() {
			next = until
		}
		var extended bool
		for _, w := range c.Freeze {
			if end, open := w.open(next); open && end.After(until) && w.isFor(backup, team) {
				until, extended = end, true
			}
		}
		if !extended {
			break
		}
	}
	return until
}
