package volume

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Losses collects what a snapshot does not have of a volume, or a volume of a snapshot. It is safe for concurrent use.
type Losses struct {
	mu    sync.Mutex
	found [kinds]loss
}

// loss is what is lost of one kind.
type loss struct {
	count int
	names []string // the first ones, sorted
}

// kind is a kind of loss.
type kind int

const (
	// Of a backup.
	vanished kind = iota
	changed
	special
	hardLinks
	attributes
	placeholders
	// Of a restore.
	owners
	modes
	times
	kinds
)

const (
	named    = 10 // files that a warning names
	longName = 72 // bytes of a path in a warning
)

// add adds a loss, and keeps the names that come first in their order, because a volume is read in no order.
func (l *Losses) add(k kind, name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := &l.found[k]
	of.count++
	at, _ := slices.BinarySearch(of.names, name)
	of.names = slices.Insert(of.names, at, name)
	of.names = of.names[:min(len(of.names), named)]
}

// quoted returns a path as a warning has it.
func quoted(name string) string {
	if len(name) > longName {
		name = "..." + name[len(name)-longName+3:] // the end is what tells paths apart
	}
	return strconv.Quote(name)
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
		switch name {
		case "", "security.selinux", "security.ima", "security.evm": // of the node
		case "system.nfs4_acl", "system.nfs4_dacl", "system.nfs4_sacl", "system.cifs_acl": // other views of owner and mode
		default:
			if !strings.HasPrefix(name, "trusted.overlay.") {
				return true
			}
		}
	}
	return false
}

// Warnings returns one line for each kind, with the number of files and the first of them.
func (l *Losses) Warnings() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []string
	for k, text := range []string{
		vanished:  "deleted while the volume was read, and not in the snapshot",
		changed:   "files changed while they were read, so that their parts may be of different times",
		special:   "FIFOs, sockets or devices, which kopia does not store: they are not in the snapshot",
		hardLinks: "files have several names, which kopia stores as files of their own",
		attributes: "objects have extended attributes, such as ACLs or capabilities, which kopia does not store: restore " +
			"them by other means",
		placeholders: "names end in " + placeholderSuffix + ": cleat.dev/kopia restores these files, but Velero and kopia " +
			"take them for placeholders, and may delete them, or fail",
		owners: "objects do not have the owner of the backup, because the volume refuses it",
		modes:  "objects do not have the permissions of the backup, because the volume refuses them",
		times:  "objects do not have the time of the backup, because the volume refuses it",
	} {
		if of := l.found[k]; of.count > 0 {
			more := ""
			if of.count > len(of.names) {
				more = fmt.Sprintf(" and %d more", of.count-len(of.names))
			}
			var names []string
			for _, name := range of.names {
				names = append(names, quoted(name))
			}
			all = append(all, fmt.Sprintf("%d %s: %s%s", of.count, text, strings.Join(names, ", "), more))
		}
	}
	return all
}
