package volume

import (
	"fmt"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Losses collects what a snapshot does not have of a volume. It is safe for concurrent use.
type Losses struct {
	mu    sync.Mutex
	found [kinds]loss
}

// loss is what is lost of one kind.
type loss struct {
	count int
	names []string // the first ones
}

// kind is a kind of loss.
type kind int

const (
	vanished kind = iota
	renamed
	special
	hardLinks
	attributes
	placeholders
	kinds
)

// named is how many files a warning names.
const named = 5

func (l *Losses) add(k kind, name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.found[k].count++
	if len(l.found[k].names) < named {
		l.found[k].names = append(l.found[k].names, fmt.Sprintf("%.200q", name))
	}
}

// Vanished adds a file that was deleted before it was read.
func (l *Losses) Vanished(name string) { l.add(vanished, name) }

// placeholderSuffix is the end of the names of kopia's placeholders.
const placeholderSuffix = ".kopia-entry"

// look adds what a snapshot cannot have of an object.
func (l *Losses) look(e *entry, below string) {
	if e.links > 1 && e.FileInfo.Mode().IsRegular() {
		l.add(hardLinks, below)
	}
	if hasAttributes(e.path) {
		l.add(attributes, below)
	}
	if strings.HasSuffix(e.name, placeholderSuffix) {
		l.add(placeholders, below)
	}
}

// hasAttributes reports whether an object has extended attributes that a user or a program has set. Those that the
// system sets on all files do not count.
func hasAttributes(path string) bool {
	var buffer [1024]byte
	size, err := unix.Llistxattr(path, buffer[:])
	if err != nil {
		return err == unix.ERANGE // there are many
	}
	for name := range strings.SplitSeq(string(buffer[:size]), "\x00") {
		switch {
		case name == "", name == "security.selinux", strings.HasPrefix(name, "trusted.overlay."):
		default:
			return true
		}
	}
	return false
}

// Warnings returns one line for each kind.
func (l *Losses) Warnings() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []string
	for k, text := range []string{
		vanished:  "deleted while the volume was read, and not in the snapshot",
		renamed:   "names are not UTF-8, which kopia cannot store: the bytes that are not are stored as \\xff and the like",
		special:   "FIFOs, sockets or devices, which kopia does not store: they are not in the snapshot",
		hardLinks: "files have several names, which kopia stores as files of their own",
		attributes: "objects have extended attributes, such as ACLs or capabilities, which kopia does not store: restore " +
			"them by other means",
		placeholders: "names end in " + placeholderSuffix + ": cleat.dev/kopia restores these files, but Velero and kopia " +
			"take them for placeholders, and may delete them, or fail",
	} {
		if of := l.found[k]; of.count > 0 {
			more := ""
			if of.count > len(of.names) {
				more = fmt.Sprintf(" and %d more", of.count-len(of.names))
			}
			all = append(all, fmt.Sprintf("%d %s: %s%s", of.count, text, strings.Join(of.names, ", "), more))
		}
	}
	return all
}
