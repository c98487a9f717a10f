package loadpod

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/cleat-dev/cleat/server/internal/kube/shorten"
)

// MessagePath is where the program writes its result: the kubelet's default of a termination message.
const MessagePath = "/dev/termination-log"

// mostMessage is how many bytes of a termination message the kubelet keeps.
const mostMessage = 4096

const (
	mostError    = 2000 // bytes of an error
	mostWarning  = 1000 // bytes of one warning
	leastWarning = 250  // to which warnings are cut rather than left out
)

// Result is how an attempt has ended.
type Result struct {
	ID string `json:"id"` // of the order
	// Error is empty if the data was moved.
	Error string `json:"error,omitempty"`
	// Lost reports that the mover has ended before it answered. The data can be moved by another attempt.
	Lost   bool `json:"lost,omitempty"`
	Memory bool `json:"memory,omitempty"` // and was killed because it needed more memory
	// Interrupted reports that the attempt was ended from outside, so that it does not count.
	Interrupted bool `json:"interrupted,omitempty"`

	SnapshotID string   `json:"snapshotID,omitempty"` // of a backup
	Path       string   `json:"path,omitempty"`       // of its volume
	Bytes      int64    `json:"bytes,omitempty"`
	NewBytes   int64    `json:"newBytes,omitempty"`
	Warnings   []string `json:"warnings,omitempty"`
	Omitted    int      `json:"omitted,omitempty"` // warnings that had no place
}

// Encode returns the termination message. Long errors are cut, and warnings that have no place are counted.
func (r *Result) Encode() ([]byte, error) {
	cut := *r
	cut.Error, cut.Warnings = shorten.Text(r.Error, mostError), slices.Clone(r.Warnings)
	for most := mostWarning; ; most /= 2 {
		for i, warning := range cut.Warnings {
			cut.Warnings[i] = shorten.Text(warning, max(most, leastWarning))
		}
		text, err := json.Marshal(&cut)
		switch {
		case err != nil || len(text) <= mostMessage:
			return text, err
		case most > leastWarning && len(cut.Warnings) > 0:
		case len(cut.Warnings) > 0:
			cut.Warnings, cut.Omitted = cut.Warnings[:len(cut.Warnings)-1], cut.Omitted+1
		case cut.Error != "":
			cut.Error = shorten.Text(cut.Error, len(cut.Error)/2) //nolint:mnd // characters may be escaped
		default:
			return nil, fmt.Errorf("the result has %d bytes, want at most %d", len(text), mostMessage)
		}
	}
}

// mostID is how long the ID of a snapshot may be.
const mostID = 256

// parse reads the termination message of the pod of an attempt.
func parse(message, id string) (*Result, error) {
	decoder := json.NewDecoder(bytes.NewReader([]byte(message)))
	decoder.DisallowUnknownFields()
	r := new(Result)
	if err := decoder.Decode(r); err != nil || decoder.More() {
		return nil, fmt.Errorf("its termination message is not a result: %w", cmp.Or(err, errors.New("more follows")))
	}
	switch {
	case r.ID != id:
		return nil, fmt.Errorf("its termination message is the result of %q, want %q", r.ID, id)
	case r.Bytes < 0 || r.NewBytes < 0 || r.Omitted < 0:
		return nil, errors.New("its termination message has a negative number")
	case len(r.SnapshotID) > mostID:
		return nil, fmt.Errorf("its termination message has a snapshot ID of %d bytes, want at most %d", len(r.SnapshotID),
			mostID)
	case r.Lost && r.Error == "", r.Memory && !r.Lost, r.Interrupted && (!r.Lost || r.Memory),
		r.Error != "" && r.SnapshotID != "":
		return nil, errors.New("its termination message contradicts itself")
	}
	return r, nil
}
