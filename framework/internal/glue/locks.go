package glue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	objectlockv1 "github.com/cleat-dev/cleat/proto/cleat/objectlock/v1"
)

// RetainUntilMetadata is the key of gRPC metadata by which a host asks a store to keep an object until a time.
const RetainUntilMetadata = "cleat-retain-until"

// LockMode is how strictly a storage keeps an object until a time.
type LockMode string

const (
	// LockGovernance lets users with a special right delete the object before.
	LockGovernance LockMode = "GOVERNANCE"
	// LockCompliance lets nobody delete the object before.
	LockCompliance LockMode = "COMPLIANCE"
)

// Answer is whether a bucket has an ability. The zero value stands for unknown.
type Answer string

const (
	// Yes means that the bucket has the ability.
	Yes Answer = "yes"
	// No means that the bucket does not have the ability.
	No Answer = "no"
)

// AnswerOf returns Yes or No.
func AnswerOf(yes bool) Answer {
	if yes {
		return Yes
	}
	return No
}

// Locks is what a bucket locks.
type Locks struct {
	// Versions is whether the bucket keeps versions of objects.
	Versions Answer `json:"versions,omitempty"`
	// Lock is whether objects of the bucket can be locked.
	Lock Answer `json:"lock,omitempty"`
	// ConditionalWrites is whether PutObjectInput.IfAbsent has an effect.
	ConditionalWrites Answer `json:"conditionalWrites,omitempty"`
	// Mode is what the store sets for objects with PutObjectInput.RetainUntil, as its configuration says; empty for
	// nothing.
	Mode LockMode `json:"mode,omitempty"`
	// KeepFor is the time for which the store keeps them, whatever RetainUntil is; 0 for until RetainUntil.
	KeepFor time.Duration `json:"keepFor,omitempty"`
	// DefaultMode is what the bucket itself sets for each object; empty for nothing.
	DefaultMode LockMode `json:"defaultMode,omitempty"`
	// DefaultFor is the time for which the bucket keeps each object.
	DefaultFor time.Duration `json:"defaultFor,omitempty"`
}

// Wire returns the message for l.
func (l *Locks) Wire() *objectlockv1.LocksResponse {
	sent := &objectlockv1.LocksResponse{
		Versions: l.Versions.wire(), Lock: l.Lock.wire(), ConditionalWrites: l.ConditionalWrites.wire(), Mode: l.Mode.wire(),
		DefaultMode: l.DefaultMode.wire(),
	}
	if l.KeepFor > 0 {
		sent.KeepFor = durationpb.New(l.KeepFor)
	}
	if l.DefaultFor > 0 {
		sent.DefaultFor = durationpb.New(l.DefaultFor)
	}
	return sent
}

// ReceivedLocks checks a message, and returns what it is about.
func ReceivedLocks(reply *objectlockv1.LocksResponse) (*Locks, error) {
	l := new(Locks)
	var err error
	mode := func(field string, received objectlockv1.Mode) LockMode {
		known, problem := receivedMode(field, received)
		err = errors.Join(err, problem)
		return known
	}
	period := func(field string, received *durationpb.Duration) time.Duration {
		if received == nil {
			return 0
		}
		if received.CheckValid() != nil || received.AsDuration() < 0 {
			err = errors.Join(err, fmt.Errorf("%s is %v, want a time of 0 or more", field, received))
		}
		return received.AsDuration()
	}
	answer := func(field string, received objectlockv1.Answer) Answer {
		switch received {
		case objectlockv1.Answer_ANSWER_UNSPECIFIED:
		case objectlockv1.Answer_ANSWER_YES:
			return Yes
		case objectlockv1.Answer_ANSWER_NO:
			return No
		default:
			err = errors.Join(err, fmt.Errorf("%s is %d, want 0, 1 or 2", field, received))
		}
		return ""
	}
	l.Versions, l.Lock = answer("versions", reply.GetVersions()), answer("lock", reply.GetLock())
	l.ConditionalWrites = answer("conditional_writes", reply.GetConditionalWrites())
	l.Mode, l.KeepFor = mode("mode", reply.GetMode()), period("keep_for", reply.GetKeepFor())
	l.DefaultMode = mode("default_mode", reply.GetDefaultMode())
	l.DefaultFor = period("default_for", reply.GetDefaultFor())
	if err == nil && (l.Mode != "" || l.DefaultMode != "") && l.Lock == No {
		err = errors.New("mode or default_mode is set, and lock is no: want a bucket whose objects can be locked")
	}
	return l, err
}

// Retention is until when an object is kept.
type Retention struct {
	// Mode is empty if the object is not kept until a time.
	Mode LockMode
	// Until is the time until which it is kept, unless Mode is empty.
	Until time.Time
	// Held is whether the object is held, whatever the time.
	Held bool
}

// Keeps reports whether the object cannot be deleted at a time.
func (r Retention) Keeps(now time.Time) bool { return r.Held || r.Mode != "" && r.Until.After(now) }

// Wire returns the message for r.
func (r *Retention) Wire() *objectlockv1.RetentionResponse {
	sent := &objectlockv1.RetentionResponse{Mode: r.Mode.wire(), Held: r.Held}
	if r.Mode != "" {
		sent.Until = timestamppb.New(r.Until)
	}
	return sent
}

// ReceivedRetention checks a message, and returns what it is about.
func ReceivedRetention(reply *objectlockv1.RetentionResponse) (*Retention, error) {
	mode, err := receivedMode("mode", reply.GetMode())
	if err != nil {
		return nil, err
	}
	r := &Retention{Mode: mode, Held: reply.GetHeld()}
	if mode == "" {
		return r, nil
	}
	if err := reply.GetUntil().CheckValid(); err != nil {
		return nil, fmt.Errorf("until: %w; want the time of the mode", err)
	}
	r.Until = reply.GetUntil().AsTime()
	return r, nil
}

func (a Answer) wire() objectlockv1.Answer {
	switch a {
	case Yes:
		return objectlockv1.Answer_ANSWER_YES
	case No:
		return objectlockv1.Answer_ANSWER_NO
	default:
		return objectlockv1.Answer_ANSWER_UNSPECIFIED
	}
}

func (m LockMode) wire() objectlockv1.Mode {
	switch m {
	case LockGovernance:
		return objectlockv1.Mode_MODE_GOVERNANCE
	case LockCompliance:
		return objectlockv1.Mode_MODE_COMPLIANCE
	default:
		return objectlockv1.Mode_MODE_UNSPECIFIED
	}
}

func receivedMode(field string, received objectlockv1.Mode) (LockMode, error) {
	switch received {
	case objectlockv1.Mode_MODE_UNSPECIFIED:
		return "", nil
	case objectlockv1.Mode_MODE_GOVERNANCE:
		return LockGovernance, nil
	case objectlockv1.Mode_MODE_COMPLIANCE:
		return LockCompliance, nil
	default:
		return "", fmt.Errorf("%s is %d, want 0, 1 or 2", field, received)
	}
}

// WithRetainUntil returns a context for a PutObject that asks to keep the object until a time.
func WithRetainUntil(ctx context.Context, until time.Time) context.Context {
	return metadata.AppendToOutgoingContext(ctx, RetainUntilMetadata, until.UTC().Format(time.RFC3339Nano))
}

// RetainUntil returns the time until which the caller of a PutObject asks to keep the object; zero if it does not ask.
// An object that would be kept for less than it was asked for is worse than a failed call.
func RetainUntil(ctx context.Context) (time.Time, error) {
	sent := metadata.ValueFromIncomingContext(ctx, RetainUntilMetadata)
	if len(sent) == 0 {
		return time.Time{}, nil
	}
	until, err := time.Parse(time.RFC3339Nano, sent[len(sent)-1])
	if err != nil {
		return time.Time{}, Invalid("the metadata %s is %.40q, want a time as in RFC 3339", RetainUntilMetadata,
			sent[len(sent)-1])
	}
	return until, nil
}

// LockedError is the error of a call that could not change or delete an object because its storage keeps it.
type LockedError struct {
	// Until is the time until which it is kept; zero if it is only held.
	Until time.Time
	// Held is whether it is held, whatever the time.
	Held bool

	reason error
}

// Error implements error.
func (e *LockedError) Error() string { return e.reason.Error() }

// Unwrap implements errors.Unwrap.
func (e *LockedError) Unwrap() error { return e.reason }

// Is implements errors.Is for ErrLocked.
func (e *LockedError) Is(target error) bool { return target == ErrLocked } //nolint:errorlint // errors.Is calls it

// Locked returns a LockedError that records the caller of its caller.
func Locked(until time.Time, held bool, format string, args ...any) error {
	made := &LockedError{Until: until, Held: held, reason: fmt.Errorf(format, args...)}
	return &locatedError{error: made, callers: callers(1)}
}

// withLocked adds what is known about a lock to the status of err.
func withLocked(sent, err error) error {
	var locked *LockedError
	if !errors.As(err, &locked) {
		return sent
	}
	detail := &objectlockv1.Locked{Held: locked.Held}
	if !locked.Until.IsZero() {
		detail.Until = timestamppb.New(locked.Until)
	}
	if detailed, err := status.Convert(sent).WithDetails(detail); err == nil {
		return detailed.Err()
	}
	return sent
}

// LockedOf returns the LockedError that a status stands for; nil if it stands for another error.
func LockedOf(reply *status.Status) *LockedError {
	if reply.Code() != codes.FailedPrecondition {
		return nil
	}
	for _, detail := range reply.Details() {
		sent, ok := detail.(*objectlockv1.Locked)
		if !ok {
			continue
		}
		locked := &LockedError{Held: sent.GetHeld(), reason: errors.New(reply.Message())}
		if sent.GetUntil().CheckValid() == nil {
			locked.Until = sent.GetUntil().AsTime()
		}
		if locked.Held || !locked.Until.IsZero() {
			return locked
		}
	}
	return nil
}
