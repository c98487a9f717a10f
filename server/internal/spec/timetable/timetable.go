// Package timetable reads the cron expressions of schedules. Start with Parse.
package timetable

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// Table holds the times at which a schedule is due, in whole seconds.
type Table struct{ cron.Schedule }

// Parse parses a cron expression as Velero does: five fields or a descriptor such as @daily or "@every 1h",
// after an optional TZ= or CRON_TZ=. The default is the time zone of now.
func Parse(expression string, now time.Time) (t Table, err error) {
	if expression == "" {
		return Table{}, errors.New("invalid schedule: it is empty, want a cron expression")
	}
	defer func() { // the parser panics on some expressions, e.g. one with only a time zone
		if r := recover(); r != nil {
			t, err = Table{}, fmt.Errorf("invalid schedule: %q cannot be read as a cron expression", expression)
		}
	}()
	parsed, err := cron.ParseStandard(expression)
	if err != nil {
		return Table{}, fmt.Errorf("invalid schedule: %w", err)
	}
	if _, every, ok := strings.Cut(expression, "@every "); ok {
		// The parser takes all shorter and negative periods for one second.
		if period, err := time.ParseDuration(every); err != nil || period < time.Second {
			return Table{}, fmt.Errorf("invalid schedule: the period of %q is too short, want at least 1s", expression)
		}
	}
	t = Table{parsed}
	if t.Next(now).IsZero() {
		return Table{}, fmt.Errorf("invalid schedule: %q is not due within the next years", expression)
	}
	return t, nil
}

// Last returns the last time after since and not after now, or the zero time if there is none.
func (t Table) Last(since, now time.Time) time.Time {
	since = since.In(now.Location())
	due := t.Next(since)
	if due.IsZero() || due.After(now) {
		return time.Time{}
	}
	if every, ok := t.Schedule.(cron.ConstantDelaySchedule); ok {
		return due.Add(now.Sub(due).Truncate(every.Delay))
	}
	// The last server may have stopped years ago, so search backwards from now with growing steps.
	for back := time.Minute; back > 0 && now.Add(-back).After(due); back *= 2 {
		if next := t.Next(now.Add(-back)); !next.IsZero() && !next.After(now) {
			due = next
			break
		}
	}
	for {
		next := t.Next(due)
		if next.IsZero() || next.After(now) {
			return due
		}
		due = next
	}
}
