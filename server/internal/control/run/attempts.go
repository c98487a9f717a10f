package run

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	// briefAttempt is the longest time from the start of an attempt to that of the next one in which the attempt does not
	// count: whatever has ended the server, the run has hardly begun.
	briefAttempt = time.Minute
	// briefFor is how long attempts in a row may be brief. A run that ends its servers itself would otherwise be attempted
	// for ever.
	briefFor = 30 * time.Minute
)

// attempts are the attempts of a run, the last of which goes on or was left.
type attempts struct {
	made  int
	began time.Time // the last one; zero if that is not known
	brief int       // how many do not count
	since time.Time // the first of the last brief ones in a row; zero if the one before was not brief
}

// attemptsOf returns the attempts that a claim is about. Times that cannot be read are not known.
func attemptsOf(c Claim) attempts {
	a := attempts{made: c.Attempt}
	fields := append(strings.Fields(c.Times), "", "", "")
	a.began, _ = time.Parse(time.RFC3339, fields[0]) // the zero time if it is invalid
	if brief, err := strconv.Atoi(fields[1]); err == nil && brief > 0 && brief < a.made {
		a.brief = brief
		a.since, _ = time.Parse(time.RFC3339, fields[2])
	}
	return a
}

// times returns the value of TimesAnnotation.
func (a attempts) times() string {
	text := a.began.UTC().Format(time.RFC3339)
	if a.brief == 0 {
		return text
	}
	text += " " + strconv.Itoa(a.brief)
	if !a.since.IsZero() {
		text += " " + a.since.UTC().Format(time.RFC3339)
	}
	return text
}

// counted returns how many attempts count.
func (a attempts) counted() int { return a.made - a.brief }

// next returns the attempts with another one, which begins now. It returns false if that would be one too many.
func (a attempts) next(now time.Time, most int) (attempts, bool) {
	wasBrief := !a.began.IsZero() && now.Sub(a.began) < briefAttempt
	switch {
	case !wasBrief:
		a.since = time.Time{}
	case a.since.IsZero():
		a.since = a.began
	}
	if wasBrief && most > 1 && now.Sub(a.since) < briefFor {
		a.brief++
	} else if a.counted() >= most {
		return a, false
	}
	a.made++
	a.began = now
	return a, true
}

// describe returns which attempt the last one is.
func (a attempts) describe(most int) string {
	if a.brief == 0 {
		return fmt.Sprintf("attempt %d of %d", a.made, most)
	}
	return fmt.Sprintf("attempt %d, which counts as %d of %d because the servers of others ended within %s", a.made,
		a.counted(), most, briefAttempt)
}
