package pluginstatus

import (
	"io"
	"strings"

	"github.com/cleat-dev/cleat/server/internal/report/layout"
)

// Verification is the document of "plugin verify".
type Verification struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Lock       string         `json:"lock"`
	Right      bool           `json:"right"` // every file is OK
	Files      []VerifiedFile `json:"files"`
}

// Wrong returns the number of files that are not OK.
func (v *Verification) Wrong() int {
	wrong := 0
	for _, file := range v.Files {
		if file.State != FileOK {
			wrong++
		}
	}
	return wrong
}

// Print writes a table of all files, and below it their problems.
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
	PrintFileProblems(d, "Wrong", problems)
	return d.Err()
}

// VerifiedFile is a file, compared with the lock.
type VerifiedFile struct {
	File   string    `json:"file"` // relative to the directory
	State  FileState `json:"state"`
	Reason string    `json:"reason,omitempty"`
	ToDo   string    `json:"toDo,omitempty"`
}

// FileState is the relation of a file to the lock.
type FileState string

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

// ToDo returns the remedy for the state.
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

// The values of FileState.
const (
	FileOK          FileState = "OK"          // its sum and its plugins match the lock
	FileChanged     FileState = "Changed"     // its sum differs
	FileNotLocked   FileState = "NotLocked"   // the lock does not have it
	FileMissing     FileState = "Missing"     // the directory does not have it
	FileQuarantined FileState = "Quarantined" // its sum matches, but it is unusable, wholly or in part
)
