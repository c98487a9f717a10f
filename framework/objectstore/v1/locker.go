package v1

import (
	"context"

	"github.com/cleat-dev/cleat/framework/internal/glue"
)

// Locker is an ObjectStore whose storage can keep objects from being deleted or changed. A store implements it if that
// is so; a host assumes nothing about the others. Such a store keeps what is written with PutObjectInput.RetainUntil,
// and its DeleteObject and PutObject return a framework.ErrLocked for an object that is kept. It never uses a right to
// delete an object before its time, and never sets another time for an object that exists.
//
// A store in front of another one implements it by the calls of the store behind. Stock Velero does not call it.
type Locker interface {
	ObjectStore
	// Locks reports what a bucket locks. If the bucket and the configuration of the store contradict each other, the error
	// is a framework.ErrInvalid that says what to do; hosts make no backups then. The error errors.ErrUnsupported means
	// that the store does not tell.
	Locks(ctx context.Context, input *LocksInput) (*Locks, error)
	// SetHold holds an object, which then cannot be deleted whatever the time, or ends that. It may be repeated. For an
	// object that does not exist the error is a framework.ErrNotFound, and for a bucket that cannot lock it is
	// errors.ErrUnsupported.
	SetHold(ctx context.Context, input *SetHoldInput) error
	// Retention reports until when an object is kept. The errors are those of SetHold.
	Retention(ctx context.Context, input *RetentionInput) (*Retention, error)
}

// LocksInput names a bucket.
type LocksInput struct {
	Bucket string
}

// Locks is what a bucket locks.
type Locks = glue.Locks

// LockMode is how strictly an object is kept until a time: ModeGovernance or ModeCompliance. The zero value is not at
// all.
type LockMode = glue.LockMode

// Modes of locks, in the words of S3.
const (
	ModeGovernance = glue.LockGovernance
	ModeCompliance = glue.LockCompliance
)

// Answer is whether a bucket has an ability: Yes or No. The zero value stands for unknown.
type Answer = glue.Answer

// Answers of Locks.
const (
	Yes = glue.Yes
	No  = glue.No
)

// AnswerOf returns Yes or No.
func AnswerOf(yes bool) Answer { return glue.AnswerOf(yes) }

// SetHoldInput names an object, and says whether it is to be held.
type SetHoldInput struct {
	Bucket string
	Key    string
	On     bool
}

// RetentionInput names an object.
type RetentionInput struct {
	Bucket string
	Key    string
}

// Retention is until when an object is kept.
type Retention = glue.Retention
