package timetable

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for expression, tt := range map[string]struct{ next, err string }{
		"*/5 * * * *":                       {next: "2026-03-04T12:05:00Z"},
		"30 1 * * *":                        {next: "2026-03-05T01:30:00Z"},
		"0 9 * * MON-FRI":                   {next: "2026-03-05T09:00:00Z"},
		"@daily":                            {next: "2026-03-05T00:00:00Z"},
		"@every 1s":                         {next: "2026-03-04T12:00:01Z"},
		"@every 36h":                        {next: "2026-03-06T00:00:00Z"},
		"CRON_TZ=Asia/Tokyo 30 1 * * *":     {next: "2026-03-04T16:30:00Z"},
		"TZ=America/New_York 30 8 * * *":    {next: "2026-03-04T13:30:00Z"},
		"TZ=America/New_York @midnight":     {next: "2026-03-05T05:00:00Z"},
		"CRON_TZ=Europe/Berlin 30 2 29 3 *": {next: "2027-03-29T00:30:00Z"}, // that time does not exist in 2026
		"":                                  {err: "invalid schedule: it is empty, want a cron expression"},
		"   ":                               {err: "invalid schedule: "},
		"* * * *":                           {err: "invalid schedule: expected exactly 5 fields, found 4"},
		"* * * * * *":                       {err: "invalid schedule: expected exactly 5 fields, found 6"},
		"61 * * * *":                        {err: "invalid schedule: end of range (61) above maximum (59)"},
		"@sometimes":                        {err: "invalid schedule: unrecognized descriptor: @sometimes"},
		"@every soon":                       {err: "invalid schedule: failed to parse duration @every soon"},
		"@every 999ms":                      {err: `the period of "@every 999ms" is too short, want at least 1s`},
		"@every -1h":                        {err: "too short"},
		"TZ=UTC":                            {err: `"TZ=UTC" cannot be read as a cron expression`},
		"CRON_TZ=Nowhere/Land 0 0 * * *":    {err: "provided bad location Nowhere/Land"},
		"0 0 31 2 *":                        {err: "is not due within the next years"},
	} {
		t.Run(expression, func(t *testing.T) {
			t.Parallel()
			times, err := Parse(expression, noon())
			if tt.err != "" {
				require.ErrorContains(t, err, tt.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.next, times.Next(noon()).UTC().Format(time.RFC3339))
		})
	}
}

func TestLast(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ expression, since, want string }{
		"not yet":                   {"0 13 * * *", "2026-03-04T11:00:00Z", ""},
		"just now":                  {"0 12 * * *", "2026-03-04T11:59:59Z", "2026-03-04T12:00:00Z"},
		"it was that moment":        {"0 12 * * *", "2026-03-04T12:00:00Z", ""},
		"an hour ago":               {"0 11 * * *", "2026-03-04T10:00:00Z", "2026-03-04T11:00:00Z"},
		"many":                      {"*/5 * * * *", "2026-03-01T00:00:00Z", "2026-03-04T12:00:00Z"},
		"years of minutes":          {"* * * * *", "1996-03-01T00:00:00Z", "2026-03-04T12:00:00Z"},
		"centuries":                 {"* * * * *", "0001-03-01T00:00:00Z", "2026-03-04T12:00:00Z"},
		"a leap day":                {"0 0 29 2 *", "2014-01-01T00:00:00Z", "2024-02-29T00:00:00Z"},
		"once a year, many":         {"* * 1 1 *", "2020-01-01T00:00:00Z", "2026-01-01T23:59:00Z"},
		"a period":                  {"@every 7m", "2026-03-04T11:30:03Z", "2026-03-04T11:58:03Z"},
		"a period that is not over": {"@every 7m", "2026-03-04T11:54:03Z", ""},
		"seconds for years":         {"@every 1s", "1996-03-01T00:00:00Z", "2026-03-04T12:00:00Z"},
		"the hour that comes twice": {"CRON_TZ=Europe/Berlin 30 2 * * *", "2025-10-25T12:00:00Z", "2026-03-04T01:30:00Z"},
		"in the future":             {"* * * * *", "2026-03-04T12:00:30Z", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			times, err := Parse(tt.expression, noon())
			require.NoError(t, err)
			since, err := time.Parse(time.RFC3339, tt.since)
			require.NoError(t, err)
			last := times.Last(since, noon())
			if tt.want == "" {
				require.Zero(t, last)
				return
			}
			require.Equal(t, tt.want, last.UTC().Format(time.RFC3339))
		})
	}
}

// FuzzTimetable checks that no expression panics, and that the last time is due, in the past, and the last one.
func FuzzTimetable(f *testing.F) {
	for _, seed := range []string{"* * * * *", "TZ=UTC", "@every 1h", "CRON_TZ=Asia/Tokyo 0-59/7 1,2 */3 JAN-MAR ?",
		"@yearly", "TZ= @daily"} {
		f.Add(seed, int64(3600))
	}
	f.Fuzz(func(t *testing.T, expression string, ago int64) {
		now := noon()
		times, err := Parse(expression, now)
		if err != nil {
			return
		}
		since := now.Add(-time.Duration(ago%1e6) * time.Second).Truncate(time.Second)
		last := times.Last(since, now)
		if last.IsZero() {
			require.True(t, times.Next(since).After(now))
			return
		}
		require.True(t, last.After(since) && !last.After(now))
		require.True(t, times.Next(last).After(now))
	})
}

func noon() time.Time { return time.Date(2026, 3, 4, 12, 0, 0, 123, time.UTC) }
