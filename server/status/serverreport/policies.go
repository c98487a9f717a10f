package serverreport

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// ReportAnnotation is that of an answered ServerStatusRequest which has a Report as JSON. Velero's clients keep it.
const PoliciesAnnotation = "cleat.dev/policies"

// Status is how one policy does. It has what a condition has.
type Policy struct {
	Kind          string `json:"kind"`   // "QueueAdmission"
	Plugin        string `json:"plugin"` // that is configured
	FailurePolicy string `json:"failurePolicy"`
	// Decides is the plugin that decides now: the one that is configured, or the built-in one in its place. It is empty
	// when none does.
	Decides string `json:"decides,omitempty"`
	// Reason is why it failed when it was last asked, one of the Reason constants; empty when it did not.
	Reason string `json:"reason,omitempty"`
	// Message is that failure in words.
	Message string `json:"message,omitempty"`
	// Since is when Reason became what it is; zero before the first call.
	Since time.Time `json:"since,omitzero"`
	// Failures are those since it last worked.
	Failures int `json:"failures,omitempty"`
}

// Working tells that the policy did what it should when it was last asked, or was not asked yet.
func (s Policy) Working() bool { return s.Reason == "" }

// Report is what a server tells of its policies.
type PolicyReport struct {
	// ConcurrentBackups is how many backups may run or be about to.
	ConcurrentBackups int `json:"concurrentBackups"`
	// Policies are all of them, that of the queue first.
	Policies []Policy `json:"policies"`
}

// Encode is the report as the annotation has it, with long messages cut.
func (r *PolicyReport) Encode() (string, error) {
	short := *r
	short.Policies = make([]Policy, 0, len(r.Policies))
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

// Of is the first policy of a kind; nil when there is none.
func (r *PolicyReport) Of(kind string) *Policy {
	for i := range r.Policies {
		if r.Policies[i].Kind == kind {
			return &r.Policies[i]
		}
	}
	return nil
}

const (
	// maxMessage is how much of the message of a policy is reported, in bytes, and maxMessages of all of them: they share
	// the 256 KiB of an object's annotations with the report of plugins.
	maxMessage  = 1 << 10
	maxMessages = 16 << 10
)

// DecodeReport reads what a server wrote into the annotation. What it does not know is passed over: the server may be
// newer.
func DecodePolicies(text string) (*PolicyReport, error) {
	r := &PolicyReport{}
	if err := json.Unmarshal([]byte(text), r); err != nil {
		return nil, fmt.Errorf("annotation %s of the server's answer is no report of policies: %w", PoliciesAnnotation, err)
	}
	for i, status := range r.Policies {
		if status.Kind == "" || status.Plugin == "" {
			return nil, fmt.Errorf("annotation %s of the server's answer: policies[%d] has no kind or no plugin", PoliciesAnnotation, i)
		}
	}
	return r, nil
}
