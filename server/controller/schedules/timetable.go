package schedules

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// timetable is when a schedule is due. Its moments are whole seconds.
type timetable struct{ cron.Schedule }

// parseTimetable reads a cron expression as Velero does: five fields or a descriptor such as @daily or "@every 1h", with
// an optional TZ= or CRON_TZ= in front. Without that, times are those of the zone of now.
func parseTimetable(expression string, now time.Time) (t timetable, err error) {
	if expression == "" {
		return timetable{}, errors.New("invalid schedule: it is empty, want a cron expression")
	}
	defer func() { // the parser panics on some expressions, e.g. one of a zone alone
		if r := recover(); r != nil {
			t, err = timetable{}, fmt.Errorf("invalid schedule: %q cannot be read as a cron expression", expression)
		}
	}()
	parsed, err := cron.ParseStandard(expression)
	if err != nil {
		return timetable{}, fmt.Errorf("invalid schedule: %w", err)
	}
	if _, every, ok := strings.Cut(expression, "@every "); ok {
		// The parser takes less than a second, and what is less than nothing, for a second.
		if period, err := time.ParseDuration(every); err != nil || period < time.Second {
			return timetable{}, fmt.Errorf("invalid schedule: the period of %q is too short, want at least 1s", expression)
		}
	}
	t = timetable{parsed}
	if t.Next(now).IsZero() {
		return timetable{}, fmt.Errorf("invalid schedule: %q means no moment within the next years", expression)
	}
	return t, nil
}

// last is the last moment after since and not after now; zero when there is none.
func (t timetable) last(since, now time.Time) time.Time {
	since = since.In(now.Location())
	due := t.Next(since)
	if due.IsZero() || due.After(now) {
		return time.Time{}
	}
	if every, ok := t.Schedule.(cron.ConstantDelaySchedule); ok {
		return due.Add(now.Sub(due).Truncate(every.Delay))
	}
	// A server may have been away for years: look close before now first, then farther and farther back.
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
