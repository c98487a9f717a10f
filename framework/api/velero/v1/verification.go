package v1

import (
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// VerifyAnnotation of a Backup requests that it is verified. It is a VerifyRequest as JSON.
	VerifyAnnotation = "cleat.dev/verify"

	// VerificationAnnotation of a Backup is its Verification as JSON: the last ones, and the one that is at work.
	VerificationAnnotation = "cleat.dev/verification"
)

// VerificationDepth is how much of a backup is looked at. Each depth includes those before it.
type VerificationDepth string

// Depths.
const (
	// VerifyQuick looks at what the object store tells: which files there are, and what their signature covers.
	VerifyQuick VerificationDepth = "quick"
	// VerifyFiles reads all files.
	VerifyFiles VerificationDepth = "files"
	// VerifyVolumes has data movers check the repositories of the volumes, too: that all exists that snapshots refer to.
	VerifyVolumes VerificationDepth = "volumes"
	// VerifyData has data movers read all data in the repositories of the volumes.
	VerifyData VerificationDepth = "data"
)

// VerificationDepths returns all depths.
func VerificationDepths() []VerificationDepth {
	return []VerificationDepth{VerifyQuick, VerifyFiles, VerifyVolumes, VerifyData}
}

// Includes reports whether a verification of the depth looks at all that one of another depth looks at.
func (d VerificationDepth) Includes(other VerificationDepth) bool {
	all := VerificationDepths()
	return slices.Index(all, d) >= slices.Index(all, other)
}

// VerifyRequest is what a VerifyAnnotation says.
type VerifyRequest struct {
	// ID is in the answer.
	ID    string            `json:"id"`
	Depth VerificationDepth `json:"depth"`
}

// Verification is what is known of the verifications of a backup.
type Verification struct {
	// Running is the one at work; nil for none. A server that takes over begins it again.
	Running *VerificationRun `json:"running,omitempty"`
	// Last is the last one that has ended; nil for none.
	Last *VerificationResult `json:"last,omitempty"`
	// Before is one before Last that Last does not replace, because Last has looked at less or has failed; nil for none.
	Before *VerificationResult `json:"before,omitempty"`
}

// Add adds a verification that has ended. It keeps one before it that the new one does not replace: that has found
// damage, or else looked at the most.
func (v *Verification) Add(r *VerificationResult) {
	before := v.Before
	if before != nil && r.replaces(before) {
		before = nil
	}
	if last := v.Last; last != nil && last.Outcome != VerificationFailed && !r.replaces(last) &&
		(before == nil || last.Depth.Includes(before.Depth) || last.isDamaged() && !before.isDamaged()) {
		before = last
	}
	v.Before, v.Last = before, r
}

// replaces reports whether a verification has looked at all that one before it has looked at.
func (r *VerificationResult) replaces(before *VerificationResult) bool {
	return r.Outcome != VerificationFailed && r.Depth.Includes(before.Depth)
}

func (r *VerificationResult) isDamaged() bool { return r != nil && r.Outcome == VerifiedDamaged }

// Standing returns the verification that says how a backup is: the last one, or one before it that has found damage for
// which the last one has not looked; nil for none.
func (v *Verification) Standing() *VerificationResult {
	if v.Last != nil && v.Before.isDamaged() && !v.Last.isDamaged() {
		return v.Before
	}
	return v.Last
}

// At returns the last verification of a depth or a greater one; nil for none.
func (v *Verification) At(depth VerificationDepth) *VerificationResult {
	for _, r := range []*VerificationResult{v.Last, v.Before} {
		if r != nil && r.Depth.Includes(depth) {
			return r
		}
	}
	return nil
}

// Deepest returns the verification that has looked at the most, as far as it is known; nil for none.
func (v *Verification) Deepest() *VerificationResult {
	if v.Before != nil {
		return v.Before
	}
	return v.Last
}

// VerificationRun is a verification at work.
type VerificationRun struct {
	// Request is what it answers; empty for one that the server has begun itself.
	Request string            `json:"request,omitempty"`
	Depth   VerificationDepth `json:"depth"`
	Started metav1.Time       `json:"started"`
	// DoneBytes and TotalBytes are of the files; the total is 0 while it is not known.
	DoneBytes  int64 `json:"doneBytes,omitempty"`
	TotalBytes int64 `json:"totalBytes,omitempty"`
	// At is what is looked at, for people.
	At string `json:"at,omitempty"`
}

// VerificationOutcome is how a verification has ended.
type VerificationOutcome string

// Outcomes.
const (
	// VerifiedIntact is a backup of which nothing is missing, changed or added.
	VerifiedIntact VerificationOutcome = "Intact"
	// VerifiedDamaged is a backup with findings.
	VerifiedDamaged VerificationOutcome = "Damaged"
	// VerificationFailed says that the backup could not be looked at.
	VerificationFailed VerificationOutcome = "Failed"
)

// SignatureState is what is known of the signature of a backup.
type SignatureState string

// Signature states.
const (
	// SignatureValid is a signature of an accepted key.
	SignatureValid SignatureState = "Signed"
	// SignatureMissing is a backup without a signature, such as one of Velero.
	SignatureMissing SignatureState = "Unsigned"
	// SignatureUnknownKey is a signature of a key that is not accepted, or not any more.
	SignatureUnknownKey SignatureState = "UnknownKey"
	// SignatureInvalid is a signature of other content.
	SignatureInvalid SignatureState = "Invalid"
)

// VerificationResult is a verification that has ended.
type VerificationResult struct {
	Request   string              `json:"request,omitempty"`
	Depth     VerificationDepth   `json:"depth"`
	Started   metav1.Time         `json:"started"`
	Ended     metav1.Time         `json:"ended"`
	Outcome   VerificationOutcome `json:"outcome"`
	Signature SignatureState      `json:"signature,omitempty"`
	// Key identifies the key of a valid signature.
	Key string `json:"key,omitempty"`
	// Files and Bytes are what was read.
	Files int   `json:"files,omitempty"`
	Bytes int64 `json:"bytes,omitempty"`
	// Findings are what is wrong, the first ones of many; Others is the number of the rest.
	Findings []VerificationFinding `json:"findings,omitempty"`
	Others   int                   `json:"others,omitempty"`
	// Notes are what is not wrong, and what was not looked at, for people.
	Notes []string `json:"notes,omitempty"`
	// Message is why the verification has failed, for people.
	Message string `json:"message,omitempty"`
}

// FindingKind is what is wrong.
type FindingKind string

// Kinds of findings.
const (
	FindingMissing FindingKind = "missing"
	FindingChanged FindingKind = "changed"
	FindingAdded   FindingKind = "added"
	// FindingSwapped is content that belongs to another file or backup.
	FindingSwapped FindingKind = "swapped"
	// FindingSignature is a signature that is not valid.
	FindingSignature FindingKind = "signature"
)

// VerificationFinding is something that is wrong with a backup.
type VerificationFinding struct {
	Kind FindingKind `json:"kind"`
	// Of is the file, item or volume: "file b.tar.gz", "item v1/Secret shop/db".
	Of string `json:"of"`
	// Message is a sentence about it, for people.
	Message string `json:"message"`
}

// VerificationOf returns what is known of the verifications of a backup; nil if it has no VerificationAnnotation. It
// returns an error if the annotation cannot be decoded.
func VerificationOf(b metav1.Object) (*Verification, error) {
	return annotated[Verification](b, VerificationAnnotation)
}

// VerifyRequestOf returns the request for a verification; nil for none. It returns an error if the annotation cannot be
// decoded.
func VerifyRequestOf(b metav1.Object) (*VerifyRequest, error) {
	return annotated[VerifyRequest](b, VerifyAnnotation)
}

func annotated[T any](object metav1.Object, key string) (*T, error) {
	text, ok := object.GetAnnotations()[key]
	if !ok {
		return nil, nil //nolint:nilnil // there is none and that is right
	}
	value := new(T)
	if err := json.Unmarshal([]byte(text), value); err != nil {
		return nil, fmt.Errorf("annotation %s of %s: %w", key, object.GetName(), err)
	}
	return value, nil
}
