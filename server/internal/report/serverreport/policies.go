package serverreport

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/cleat-dev/cleat/server/internal/kube/shorten"
)

// PoliciesAnnotation holds a PolicyReport as JSON in an answered ServerStatusRequest. Velero's clients ignore it.
const PoliciesAnnotation = "cleat.dev/policies"

// Policy is the status of one policy. It has the parts of a condition.
type Policy struct {
	Kind          string `json:"kind"`   // "QueueAdmission"
	Plugin        string `json:"plugin"` // as configured
	FailurePolicy string `json:"failurePolicy"`
	// Decides is the plugin that decides now: the configured one, or the built-in one instead. It is empty if none does.
	Decides string `json:"decides,omitempty"`
	// Reason is the reason why the last call failed, as one of the Reason constants of package policy; empty if it
	// succeeded.
	Reason string `json:"reason,omitempty"`
	// Message describes that failure.
	Message string `json:"message,omitempty"`
	// Since is the time of the last change of Reason; zero before the first call.
	Since time.Time `json:"since,omitzero"`
	// Failures is the number of failures since the last success.
	Failures int `json:"failures,omitempty"`
}

// Working reports whether the last call of the policy succeeded. It is true before the first call.
func (s Policy) Working() bool { return s.Reason == "" }

// PolicyReport lists the policies of a server.
type PolicyReport struct {
	// ConcurrentBackups is the number of slots, which running and ready backups hold.
	ConcurrentBackups int `json:"concurrentBackups"`
	// Policies starts with the policy of the queue.
	Policies []Policy `json:"policies"`
	// Unwritable are Backups that the API server refuses to write, so that they cannot start, or hold no slot any more.
	Unwritable []Unwritable `json:"unwritable,omitempty"`
	// Keys are the public keys whose signatures of backups are accepted.
	Keys []Key `json:"keys,omitempty"`
}

// Key is a public key for the signatures of backups.
type Key struct {
	ID       string    `json:"id,omitempty"`
	Name     string    `json:"name,omitempty"`  // in the configuration; empty for the key of the server
	Signs    bool      `json:"signs,omitempty"` // it is the key of the server
	PEM      string    `json:"pem,omitempty"`
	NotAfter time.Time `json:"notAfter,omitzero"`
	// Problem is why it cannot be used.
	Problem string `json:"problem,omitempty"`
}

// Unwritable is a Backup that the API server refuses to write, with its last reply.
type Unwritable struct {
	Name    string    `json:"name"`
	Message string    `json:"message"`
	Since   time.Time `json:"since"`
}

// Encode returns the report as JSON for the annotation, with long messages and long lists cut.
func (r *PolicyReport) Encode() (string, error) {
	short := *r
	short.Policies = make([]Policy, 0, len(r.Policies))
	most := min(maxMessage, maxMessages/max(1, len(r.Policies)))
	for _, status := range r.Policies {
		status.Message = shorten.Text(status.Message, most)
		short.Policies = append(short.Policies, status)
	}
	short.Unwritable = r.Unwritable[:min(maxUnwritable, len(r.Unwritable))]
	short.Keys = nil
	for _, key := range r.Keys[:min(maxKeys, len(r.Keys))] {
		key.Problem = shorten.Text(key.Problem, maxProblem)
		short.Keys = append(short.Keys, key)
	}
	data, err := json.Marshal(short)
	if err != nil {
		return "", fmt.Errorf("write the report of policies as JSON: %w", err)
	}
	return string(data), nil
}

// Of returns the first policy of a kind, and nil if there is none.
func (r *PolicyReport) Of(kind string) *Policy {
	for i := range r.Policies {
		if r.Policies[i].Kind == kind {
			return &r.Policies[i]
		}
	}
	return nil
}

const (
	// maxMessage is the maximum length of a policy's message in bytes, and maxMessages that of all messages: they share
	// the 256 KiB of an object's annotations with the report of plugins.
	maxMessage  = 1 << 10
	maxMessages = 16 << 10
	// maxUnwritable is the maximum number of Unwritable, whose messages have at most 512 bytes.
	maxUnwritable = 20
	// maxKeys is the maximum number of keys, whose problems have at most maxProblem bytes.
	maxKeys, maxProblem = 20, 512
)

// DecodePolicies parses the annotation. It ignores unknown fields, because the server may be newer.
func DecodePolicies(text string) (*PolicyReport, error) {
	r := &PolicyReport{}
	if err := json.Unmarshal([]byte(text), r); err != nil {
		return nil, fmt.Errorf("annotation %s of the server's answer is not a report of policies: %w", PoliciesAnnotation,
			err)
	}
	for i, status := range r.Policies {
		if status.Kind == "" || status.Plugin == "" {
			return nil, fmt.Errorf("annotation %s of the server's answer: policies[%d] has no kind or no plugin",
				PoliciesAnnotation, i)
		}
	}
	return r, nil
}
