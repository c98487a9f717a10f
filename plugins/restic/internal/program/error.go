package program

import (
	"fmt"
	"strings"
)

// Error is the failure of a command.
type Error struct {
	Command string   // "backup"
	Code    int      // exit status; -1 if a signal has ended it
	State   string   // "exit status 1", "signal: killed"
	Lines   []string // what it printed last to the standard error
	Err     error
}

// Incomplete is the exit status of a backup that has made a snapshot without what it could not read.
const Incomplete = 3

// Error implements error.
func (e *Error) Error() string {
	text := fmt.Sprintf("restic %s: %s", e.Command, e.State)
	if reason := e.Reason(); reason != "" {
		text += ": " + reason
	}
	return text
}

// Unwrap returns the error of package os/exec.
func (e *Error) Unwrap() error { return e.Err }

// Reason returns why the command failed, as it said itself: what is fatal, or else its last line.
func (e *Error) Reason() string {
	last := ""
	for _, line := range e.Lines {
		if strings.Contains(line, "atal: ") {
			_, last, _ = strings.Cut(line, "atal: ")
			break
		}
		if !strings.HasPrefix(line, "{") {
			last = line
		}
	}
	return last
}

// Says reports whether one of texts is in what the command printed last.
func (e *Error) Says(texts ...string) bool {
	for _, line := range e.Lines {
		for _, text := range texts {
			if strings.Contains(line, text) {
				return true
			}
		}
	}
	return false
}
