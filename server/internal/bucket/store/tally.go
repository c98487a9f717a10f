package store

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// Sum is what is known of a stored file.
type Sum struct {
	SHA256 string // hexadecimal
	Size   int64  // in bytes; -1 if it is not known
}

// Tally has the sums of the files of a backup by their names in its directory.
type Tally map[string]Sum

// String returns the tally as the value of an annotation.
func (t Tally) String() string {
	var entries []string
	for _, name := range slices.Sorted(maps.Keys(t)) {
		entries = append(entries, name+"="+t[name].SHA256+":"+strconv.FormatInt(t[name].Size, 10))
	}
	return strings.Join(entries, ",")
}

// ParseTally returns the tally in the value of an annotation.
func ParseTally(text string) Tally {
	found := Tally{}
	for entry := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(entry, "=")
		if !ok || value == "" {
			continue
		}
		sum := Sum{SHA256: value, Size: -1}
		if digest, size, sized := strings.Cut(value, ":"); sized {
			n, _ := strconv.ParseInt(size, 10, 64)
			sum = Sum{digest, n}
		}
		found[name] = sum
	}
	return found
}

// TallyOf returns what is noted in a Backup.
func TallyOf(b *velerov1.Backup) Tally { return ParseTally(b.Annotations[velerov1.FilesAnnotation]) }
