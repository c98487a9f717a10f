package main

import (
	_ "embed" // the schema
	"encoding/json"
	"fmt"
	"path"
	"strconv"
	"time"
	_ "time/tzdata" // the server's image may have no time zones

	"github.com/cleat-dev/cleat/framework"
)

// schema describes the valid configuration. The server checks the user's file against it before anything starts.
//
//go:embed schema.json
var schema string

// config is the configuration of the user. Its types decode themselves, so that mistakes beyond the schema are found
// as early as those against the schema.
type config struct {
	TimeZone  string   `json:"timeZone"`
	Freeze    []window `json:"freeze"`
	Quota     quota    `json:"quota"`
	TeamLabel string   `json:"teamLabel"`
}

// team returns the team of a backup with those labels, or "" if they have none.
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

// of returns the quota of a team; 0 means no quota, as for backups of no team.
func (q quota) of(team string) int {
	if limit, named := q.Teams[team]; named || team == "" {
		return limit
	}
	return q.Default
}

// Validate checks rules that the schema cannot express. The server calls it when it starts.
func (c config) Validate() error {
	_, err := c.zone()
	return framework.InvalidKey("timeZone", err)
}

// zone returns the time zone of the windows.
func (c config) zone() (*time.Location, error) {
	location, err := time.LoadLocation(c.TimeZone)
	if err != nil || c.TimeZone == "Local" {
		return nil, fmt.Errorf("time zone %q is not known, want one as Europe/Berlin or UTC", c.TimeZone)
	}
	return location, nil
}

// window is a period on certain days in which certain backups do not start.
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

// timeOfDay is a time in minutes since midnight, up to 24:00.
type timeOfDay int

func (t timeOfDay) String() string { return fmt.Sprintf("%02d:%02d", t/60, t%60) }

// on returns that time on the day of at, by the clock of that day.
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
		return fmt.Errorf("%s is not a time of day, want one as 08:00", text)
	}
	*t = timeOfDay(at.Hour()*60 + at.Minute())
	return nil
}

// pattern is the name of a namespace in which * matches any letters.
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
