package cli

import (
	"io"
	"strings"

	"github.com/cleat-dev/cleat/server/status/layout"
)

// verification is what "plugin verify -o json" prints.
type verification struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Lock       string         `json:"lock"`
	Right      bool           `json:"right"` // every file is
	Files      []verifiedFile `json:"files"`
}

// wrong is how many files are not right.
func (v *verification) wrong() int {
	wrong := 0
	for _, file := range v.Files {
		if file.State != fileRight {
			wrong++
		}
	}
	return wrong
}

// print writes a table of all files, and below it what is wrong.
func (v *verification) print(w io.Writer) error {
	t := layout.Table{Head: []string{"FILE", "STATE", "WHAT TO DO"}}
	var problems []fileProblem
	for _, file := range v.Files {
		t.Rows = append(t.Rows, []string{layout.OneLine(file.File), file.State.text(), layout.OrNone(file.ToDo)})
		if file.Reason != "" {
			problems = append(problems, fileProblem{file.File, file.Reason})
		}
	}
	if err := t.Print(w); err != nil {
		return err
	}
	d := layout.NewDescription(w)
	if len(problems) > 0 {
		d.Gap()
	}
	printFileProblems(d, "Not right", problems)
	return d.Err()
}

// verifiedFile is a file with what the lock and its process say.
type verifiedFile struct {
	File   string    `json:"file"` // relative to the directory
	State  fileState `json:"state"`
	Reason string    `json:"reason,omitempty"`
	ToDo   string    `json:"toDo,omitempty"`
}

// fileState is how a file stands to the lock.
type fileState string

// text is the state as people read it.
func (s fileState) text() string {
	switch s {
	case fileRight:
		return "ok"
	case fileNotLocked:
		return "not in the lock"
	default:
		return strings.ToLower(string(s))
	}
}

// toDo is what somebody may do about it.
func (s fileState) toDo() string {
	switch s {
	case fileRight:
		return ""
	case fileChanged:
		return `put the file of the lock back, or run "cleat plugin lock"`
	case fileNotLocked:
		return `remove the file, or run "cleat plugin lock"`
	case fileMissing:
		return `put the file there, or run "cleat plugin lock"`
	default:
		return "repair, replace or remove the file; see below"
	}
}

const (
	fileRight       fileState = "OK"          // it has the sum of the lock, and provides what the lock says
	fileChanged     fileState = "Changed"     // it has another sum
	fileNotLocked   fileState = "NotLocked"   // the lock does not have it
	fileMissing     fileState = "Missing"     // the directory does not have it
	fileQuarantined fileState = "Quarantined" // it has the sum, but it cannot be used, or not all of it
)
