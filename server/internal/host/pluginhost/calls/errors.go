package calls

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/output"
)

// shownStderr is how many stderr lines an error message quotes; DiedError.Stderr has more.
const shownStderr = 5

// DuringStart replaces the name of a call in the error of a process that died before its first call.
const DuringStart = "start"

// DiedError is returned when the process of a plugin ended during a call, or before it could reply to one. It is not
// returned when the caller cancelled.
type DiedError struct {
	// Plugin is the name of the plugin that was called, "domain/name"; empty while its file is being listed.
	Plugin string
	// Command is the path of the binary.
	Command string
	// During is the name of the call, or DuringStart; empty between calls.
	During string
	// ExitStatus is how the process ended, e.g. "exit status 3" or "signal: killed".
	ExitStatus string
	// Stderr holds the last lines the process wrote, oldest first; after a Go panic, the lines from the
	// panic message on.
	Stderr []string
}

func (e *DiedError) Error() string {
	if len(e.Stderr) == 0 {
		return e.summary() + "; it wrote nothing to stderr"
	}
	return e.summary() + "; last on stderr: " + strings.Join(e.quoted(), " | ")
}

// summary returns the error without anything that the plugin wrote.
func (e *DiedError) summary() string {
	var b strings.Builder
	b.WriteString("plugin ")
	if e.Plugin != "" {
		fmt.Fprintf(&b, "%s (%s)", e.Plugin, e.Command)
	} else {
		b.WriteString(e.Command)
	}
	if e.During != "" {
		fmt.Fprintf(&b, " died during %s: %s", e.During, e.ExitStatus)
	} else {
		fmt.Fprintf(&b, " died between calls: %s", e.ExitStatus)
	}
	return b.String()
}

// WithoutStderr returns the text of err without what a plugin wrote to stderr, which may contain secrets. It is for
// annotations and events, whose readers may have no access to the log of the server.
func WithoutStderr(err error) string {
	text := err.Error()
	var died *DiedError
	if errors.As(err, &died) && len(died.Stderr) > 0 {
		text = strings.ReplaceAll(text, died.Error(), died.summary()+"; the log of the server has its stderr")
	}
	return text
}

// quoted returns the first lines of a crash, otherwise the last lines.
func (e *DiedError) quoted() []string {
	switch {
	case len(e.Stderr) <= shownStderr:
		return e.Stderr
	case output.StartsCrash(e.Stderr[0]):
		return e.Stderr[:shownStderr]
	default:
		return e.Stderr[len(e.Stderr)-shownStderr:]
	}
}

// OverdueError is returned when a plugin did not reply within the deadline of the call's class. The call was cancelled,
// and its process gets no further calls.
type OverdueError struct {
	Plugin  string
	Command string
	During  string
	Limit   time.Duration
}

func (e *OverdueError) Error() string {
	return fmt.Sprintf("plugin %s (%s) did not answer %s within %s", e.Plugin, e.Command, e.During, e.Limit)
}

// OutOfServiceError is returned when a binary failed so often in a row that it is not started for a while. It wraps the
// last failure.
type OutOfServiceError struct {
	Command  string
	Failures int       // in a row
	Until    time.Time // when a start is tried again; a time, so that the text stays the same until then
	Last     error
}

func (e *OutOfServiceError) Error() string {
	return fmt.Sprintf("plugin process %s is out of service until %s after %d failures in a row, the last: %v",
		e.Command, e.Until.UTC().Format(time.RFC3339), e.Failures, e.Last)
}

// Unwrap returns the last failure.
func (e *OutOfServiceError) Unwrap() error { return e.Last }
