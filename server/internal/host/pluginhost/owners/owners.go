package owners

import (
	"fmt"
	"io/fs"
	"os"
)

// Way is what leads from "/" to a file: directories and links in the order in which they were passed, and the file.
type Way []Step

// Step is a directory, a link or the file at the end.
type Step struct {
	// Path is the path without links.
	Path string
	Mode fs.FileMode
	// Owner is the user id, Unknown where there is none.
	Owner int
	// ReadOnly is set if the file system is mounted read-only there.
	ReadOnly bool
	// Holds is set for the directory that holds the file.
	Holds bool
}

// Unknown is the owner where the operating system has none.
const Unknown = -1

// Check returns an error if a user other than root and the user of this process can change the file or replace a part
// of its path: such a user owns it, or its mode lets others write. A sticky directory, such as /tmp, may be above, but
// not hold the file: others can add files there, but cannot replace any. Steps for which except returns true are left
// out; except may be nil. The error has the remedy.
func (w Way) Check(except func(Step) bool) error {
	for _, step := range w {
		if except != nil && except(step) {
			continue
		}
		if err := step.check(); err != nil {
			return err
		}
	}
	return nil
}

func (s Step) check() error {
	switch us := os.Geteuid(); {
	case s.Owner != Unknown && s.Owner != 0 && s.Owner != us:
		return fmt.Errorf(`the %s %s belongs to user %d; whatever the server runs must belong to root or to the user of the server, %d; `+
			`run "chown -h %d %s" if you trust what is there`, s.what(), s.Path, s.Owner, us, us, s.Path)
	case s.Mode.Type() == fs.ModeSymlink || s.Mode.Perm()&0o022 == 0:
		return nil
	case s.Mode.IsDir() && !s.Holds && s.Mode&fs.ModeSticky != 0:
		return nil
	}
	return fmt.Errorf(`others than its owner can change the %s %s, its mode is %s; run "chmod go-w %s"`, s.what(), s.Path,
		s.Mode, s.Path)
}

func (s Step) what() string {
	switch s.Mode.Type() {
	case fs.ModeDir:
		return "directory"
	case fs.ModeSymlink:
		return "link"
	}
	return "file"
}

// With returns the way with the present owner and mode of its last step, the file that info is of.
func (w Way) With(info fs.FileInfo) Way {
	if len(w) == 0 {
		return w
	}
	last := w[len(w)-1]
	last.Mode, last.Owner = info.Mode(), ownerOf(info)
	return append(w[:len(w)-1:len(w)-1], last)
}
