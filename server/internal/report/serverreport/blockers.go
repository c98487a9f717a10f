package serverreport

import (
	"encoding/json"
	"fmt"
)

const (
	// BlockersOfAnnotation is set by the author of a ServerStatusRequest to the name of a queued Backup. The answer then
	// has a BlockersAnnotation.
	BlockersOfAnnotation = "cleat.dev/queue-blockers-of"
	// BlockersAnnotation holds Blockers as JSON in an answered ServerStatusRequest.
	BlockersAnnotation = "cleat.dev/queue-blockers"
)

// Blockers are all backups for which a queued backup waits, by the policy in force. The reason in the Backup names the
// nearest.
type Blockers struct {
	Backup string   `json:"backup"`
	Names  []string `json:"names,omitempty"` // the running ones first, then in the order of the queue
	More   bool     `json:"more,omitempty"`  // there may be more, further ahead
}

// Encode returns the blockers as JSON for the annotation.
func (b *Blockers) Encode() (string, error) {
	data, err := json.Marshal(b)
	if err != nil {
		return "", fmt.Errorf("write the blockers of a backup as JSON: %w", err)
	}
	return string(data), nil
}

// DecodeBlockers parses the annotation.
func DecodeBlockers(text string) (*Blockers, error) {
	b := &Blockers{}
	if err := json.Unmarshal([]byte(text), b); err != nil {
		return nil, fmt.Errorf("annotation %s of the server's answer does not list blockers: %w", BlockersAnnotation, err)
	}
	return b, nil
}
