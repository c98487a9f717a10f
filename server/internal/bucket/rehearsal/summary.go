package rehearsal

import (
	"encoding/json"
	"slices"
	"time"
)

// Summary is one line about a rehearsal.
type Summary struct {
	ID       string    `json:"id"`
	Result   Result    `json:"result"`
	Began    time.Time `json:"began"`
	Ended    time.Time `json:"ended"` // before what was made is deleted
	Text     string    `json:"text"`
	Estimate float64   `json:"estimateSeconds,omitempty"` // of a real restore
	// Stored is false if the report could not be stored.
	Stored bool `json:"stored,omitempty"`
	// Digest is that of the stored report, see Digest. A report has none, nor have those of former versions.
	Digest string `json:"digest,omitempty"`
}

// maxKept is the number of rehearsals that the annotation of a backup has.
const maxKept = 10

// ParseList parses the annotation of a backup. Another text is an empty list.
func ParseList(annotation string) (list []Summary) {
	if annotation == "" || json.Unmarshal([]byte(annotation), &list) != nil {
		return nil
	}
	return list
}

// AddTo returns the annotation of a backup with one more rehearsal, the newest first. A rehearsal that it has
// already is replaced.
func (s Summary) AddTo(annotation string) string {
	list := slices.DeleteFunc(ParseList(annotation), func(other Summary) bool { return other.ID == s.ID })
	list = append(list, s)
	slices.SortFunc(list, func(a, b Summary) int { return b.Began.Compare(a.Began) })
	list = list[:min(len(list), maxKept)]
	encoded, err := json.Marshal(list)
	if err != nil { // a time after the year 9999
		return annotation
	}
	return string(encoded)
}
