package main

import (
	_ "embed" // the schema
	"encoding/json"
	"fmt"
	"path"
	"strconv"
	"time"
	_ "time/tzdata" // the server's image may have no time zones
)

// schema is what users may write. The server holds their file against it before anything starts.
//
//go:embed schema.json
var schema string

// config is what users write, ready for use. It decodes itself, so what is wrong beyond the schema is found as early as
// what is wrong by it.
type config struct {
	Zone      zone     `json:"timeZone"`
	Freeze    []window `json:"freeze"`
	Quota     quota    `json:"quota"`
	TeamLabel string   `json:"teamLabel"`
}

// team is whose backup it is, by its labels; empty when they do not say.
func (c *config) team(labels map[string]string) string {
	if c.TeamLabel != "" {
		return labels[c.TeamLabel]
	}
	return labels["example.cleat.dev/team"]
}

type quota struct {
	Default int            `json:"default"`
	Teams   map[string]int `json:"teams"`
}

// of is the quota of a team; 0 is none. Who is of no team has none.
func (q quota) of(team string) int {
	if limit, named := q.Teams[team]; named || team == "" {
		return limit
	}
	return q.Default
}

// zone is a time zone, UTC when nothing is said.
type zone struct{ location *time.Location }

func (z zone) in(at time.Time) time.Time {
	if z.location == nil {
		return at.UTC()
	}
	return at.In(z.location)
}

// UnmarshalJSON implements json.Unmarshaler.
func (z *zone) UnmarshalJSON(text []byte) error {
	var name string
	if err := json.Unmarshal(text, &name); err != nil {
		return err
	}
	location, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return fmt.Errorf("time zone %q is not known, want one as Europe/Berlin or UTC", name)
	}
	z.location = location
	return nil
}

// window is a time of certain days in which certain backups do not start.
type window struct {
	Days       []day     `json:"days"`
	From       timeOfDay `json:"from"`
	To         timeOfDay `json:"to"`
	Teams      []string  `json:"teams"`
	Namespaces []pattern `json:"namespaces"`
}

// day is a day of the week.
type day time.Weekday

// UnmarshalJSON implements json.Unmarshaler.
func (d *day) UnmarshalJSON(text []byte) error {
	for weekday := time.Sunday; weekday <= time.Saturday; weekday++ {
		if string(text) == strconv.Quote(weekday.String()[:3]) {
			*d = day(weekday)
			return nil
		}
	}
	return fmt.Errorf("day %s is not known, want Mon, Tue, Wed, Thu, Fri, Sat or Sun", text)
}

// timeOfDay is in minutes since midnight, up to 24:00.
type timeOfDay int

func (t timeOfDay) String() string { return fmt.Sprintf("%02d:%02d", t/60, t%60) }

// on is that time on the day of at. On the day that clocks change it is still what they show.
func (t timeOfDay) on(at time.Time) time.Time {
	return time.Date(at.Year(), at.Month(), at.Day(), int(t)/60, int(t)%60, 0, 0, at.Location())
}

// UnmarshalJSON implements json.Unmarshaler.
func (t *timeOfDay) UnmarshalJSON(text []byte) error {
	if string(text) == `"24:00"` {
		*t = 24 * 60
		return nil
	}
	at, err := time.Parse(`"15:04"`, string(text))
	if err != nil {
		return fmt.Errorf("%s is no time of day, want one as 08:00", text)
	}
	*t = timeOfDay(at.Hour()*60 + at.Minute())
	return nil
}

// pattern is a name of namespaces in which * stands for any letters.
type pattern string

func (p pattern) fits(name string) bool {
	matched, err := path.Match(string(p), name)
	return err == nil && matched
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *pattern) UnmarshalJSON(text []byte) error {
	if err := json.Unmarshal(text, (*string)(p)); err != nil {
		return err
	}
	if _, err := path.Match(string(*p), ""); err != nil {
		return fmt.Errorf("namespace pattern %q: %w", *p, err)
	}
	return nil
}
