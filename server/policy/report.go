package policy

import (
	"encoding/json"
	"fmt"
	"strings"
)

// ReportAnnotation is that of an answered ServerStatusRequest which has a Report as JSON. Velero's clients keep it.
const ReportAnnotation = "cleat.dev/policies"

// Report is what a server tells of its policies.
type Report struct {
	// ConcurrentBackups is how many backups may run or be about to.
	ConcurrentBackups int `json:"concurrentBackups"`
	// Policies are all of them, that of the queue first.
	Policies []Status `json:"policies"`
}

// Report is how all policies do, in a server that has so many places for backups.
func (p *Policies) Report(concurrentBackups int) *Report {
	return &Report{ConcurrentBackups: concurrentBackups, Policies: p.Status()}
}

const (
	// maxMessage is how much of the message of a policy is reported, in bytes, and maxMessages of all of them: they share
	// the 256 KiB of an object's annotations with the report of plugins.
	maxMessage  = 1 << 10
	maxMessages = 16 << 10
)

// Encode is the report as the annotation has it, with long messages cut.
func (r *Report) Encode() (string, error) {
	short := *r
	short.Policies = make([]Status, 0, len(r.Policies))
	most := min(maxMessage, maxMessages/max(1, len(r.Policies)))
	for _, status := range r.Policies {
		if len(status.Message) > most {
			status.Message = strings.ToValidUTF8(status.Message[:most], "") + " ..."
		}
		short.Policies = append(short.Policies, status)
	}
	data, err := json.Marshal(short)
	if err != nil {
		return "", fmt.Errorf("write the report of policies as JSON: %w", err)
	}
	return string(data), nil
}

// DecodeReport reads what a server wrote into the annotation. What it does not know is passed over: the server may be
// newer.
func DecodeReport(text string) (*Report, error) {
	r := &Report{}
	if err := json.Unmarshal([]byte(text), r); err != nil {
		return nil, fmt.Errorf("annotation %s of the server's answer is no report of policies: %w", ReportAnnotation, err)
	}
	for i, status := range r.Policies {
		if status.Kind == "" || status.Plugin == "" {
			return nil, fmt.Errorf("annotation %s of the server's answer: policies[%d] has no kind or no plugin", ReportAnnotation, i)
		}
	}
	return r, nil
}

// Of is the first policy of a kind; nil when there is none.
func (r *Report) Of(kind string) *Status {
	for i := range r.Policies {
		if r.Policies[i].Kind == kind {
			return &r.Policies[i]
		}
	}
	return nil
}
