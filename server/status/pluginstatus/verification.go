package pluginstatus

import (
	"io"
	"strings"

	"github.com/cleat-dev/cleat/server/status/layout"
)

// verification is what "plugin verify -o json" prints.
type Verification struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Lock       string         `json:"lock"`
	Right      bool           `json:"right"` // every file is
	Files      []VerifiedFile `json:"files"`
}

// wrong is how many files are not right.
func (v *Verification) Wrong() int {
	wrong := 0
	for _, file := range v.Files {
		if file.State != FileOK {
			wrong++
		}
	}
	return wrong
}

// print writes a table of all files, and below it what is wrong.
func (v *Verification) Print(w io.Writer) error {
	t := layout.Table{Head: []string{"FILE", "STATE", "WHAT TO DO"}}
	var problems []FileProblem
	for _, file := range v.Files {
		t.Rows = append(t.Rows, []string{layout.OneLine(file.File), file.State.text(), layout.OrNone(file.ToDo)})
		if file.Reason != "" {
			problems = append(problems, FileProblem{file.File, file.Reason})
		}
	}
	if err := t.Print(w); err != nil {
		return err
	}
	d := layout.NewDescription(w)
	if len(problems) > 0 {
		d.Gap()
	}
	PrintFileProblems(d, "Not right", problems)
	return d.Err()
}

// verifiedFile is a file with what the lock and its process say.
type VerifiedFile struct {
	File   string    `json:"file"` // relative to the directory
	State  FileState `json:"state"`
	Reason string    `json:"reason,omitempty"`
	ToDo   string    `json:"toDo,omitempty"`
}

// fileState is how a file stands to the lock.
type FileState string

// text is the state as people read it.
func (s FileState) text() string {
	switch s {
	case FileOK:
		return "ok"
	case FileNotLocked:
		return "not in the lock"
	default:
		return strings.ToLower(string(s))
	}
}

// toDo is what somebody may do about it.
func (s FileState) ToDo() string {
	switch s {
	case FileOK:
		return ""
	case FileChanged:
		return `put the file of the lock back, or run "cleat plugin lock"`
	case FileNotLocked:
		return `remove the file, or run "cleat plugin lock"`
	case FileMissing:
		return `put the file there, or run "cleat plugin lock"`
	default:
		return "repair, replace or remove the file; see below"
	}
}

const (
	FileOK          FileState = "OK"          // it has the sum of the lock, and provides what the lock says
	FileChanged     FileState = "Changed"     // it has another sum
	FileNotLocked   FileState = "NotLocked"   // the lock does not have it
	FileMissing     FileState = "Missing"     // the directory does not have it
	FileQuarantined FileState = "Quarantined" // it has the sum, but it cannot be used, or not all of it
)
