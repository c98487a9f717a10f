package s3store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go/middleware"

	"github.com/cleat-dev/cleat/framework"
	objectstorev1 "github.com/cleat-dev/cleat/framework/objectstore/v1"
)

// maxSkew is the largest difference between the clocks of this process and of S3 with which objects are locked: a time
// that is wrong cannot be taken back.
const maxSkew = 15 * time.Minute

// Locks reports what a bucket locks. If the config has an objectLockMode, the bucket must have Object Lock.
func (s *store) Locks(ctx context.Context, input *objectstorev1.LocksInput) (*objectstorev1.Locks, error) {
	state, err := s.look(ctx, input.Bucket)
	if err != nil {
		return nil, s.failed("look for the Object Lock of", input.Bucket, "", err)
	}
	locks := state.locks
	locks.ConditionalWrites = s.conditional()
	mode := s.config.mode()
	if mode == "" {
		return &locks, nil
	}
	const advice = "Object Lock is set when a bucket is created, or later for a bucket with versions; or remove " +
		"objectLockMode"
	switch {
	case locks.Lock == objectstorev1.No:
		return nil, framework.Invalid("config.objectLockMode is %s, and bucket %q has no Object Lock, so that it keeps "+
			"nothing: "+advice, mode, input.Bucket)
	case locks.Lock == "":
		return nil, framework.Invalid("config.objectLockMode is %s, and S3 refuses to tell whether bucket %q has Object "+
			"Lock: give the credentials the right s3:GetBucketObjectLockConfiguration; "+advice, mode, input.Bucket)
	case !state.lists:
		return nil, framework.Invalid("config.objectLockMode is %s, and S3 refuses to list the versions in bucket %q, "+
			"without which nothing can be deleted after its time: give the credentials the right s3:ListBucketVersions", mode,
			input.Bucket)
	case state.skew.Abs() > maxSkew:
		return nil, framework.Unavailable("the clock of this server and that of S3 differ by %s, so that objects would be "+
			"locked for a wrong time: correct it", state.skew.Round(time.Second))
	}
	locks.Mode, locks.KeepFor = objectstorev1.LockMode(mode), s.config.ObjectLockFor.Duration
	return &locks, nil
}

// bucketState is what is known about a bucket.
type bucketState struct {
	locks objectstorev1.Locks // without what the config says
	lists bool                // whether its versions can be listed
	skew  time.Duration       // between the clocks
	read  time.Time
}

// hides reports whether objects of the bucket may be hidden by delete markers although they are locked.
func (b bucketState) hides() bool { return b.locks.Lock == objectstorev1.Yes && b.lists }

// statePeriod is how long the state of a bucket is known.
const statePeriod = 5 * time.Minute

// state returns what is known about a bucket.
func (s *store) state(ctx context.Context, bucket string) (bucketState, error) {
	s.mu.Lock()
	known, ok := s.buckets[bucket]
	s.mu.Unlock()
	if ok && time.Since(known.read) < statePeriod {
		return known, nil
	}
	return s.look(ctx, bucket)
}

// look asks S3 about a bucket. What S3 does not tell, because it has no such call or refuses it, is unknown.
func (s *store) look(ctx context.Context, bucket string) (bucketState, error) {
	state := bucketState{read: time.Now()}
	answered, err := s.lookAtLock(ctx, bucket, &state)
	if err == nil && state.locks.Versions == "" {
		var versioning *s3.GetBucketVersioningOutput
		versioning, err = s.calls.GetBucketVersioning(ctx, &s3.GetBucketVersioningInput{Bucket: &bucket})
		switch {
		case err == nil: // suspended versioning leaves the versions that there are
			answered = true
			state.locks.Versions = objectstorev1.AnswerOf(versioning.Status != "")
		case isRefused(err):
			err = nil
		}
	}
	if err == nil && state.locks.Versions == objectstorev1.Yes {
		_, err = s.calls.ListObjectVersions(ctx, &s3.ListObjectVersionsInput{Bucket: &bucket, MaxKeys: aws.Int32(1)})
		if state.lists = err == nil; isRefused(err) {
			err = nil
		}
	}
	if err != nil {
		return bucketState{}, err
	}
	if answered { // else the bucket may be missing
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.buckets == nil {
			s.buckets = map[string]bucketState{}
		}
		s.buckets[bucket] = state
	}
	return state, nil
}

// lookAtLock asks S3 about the Object Lock of a bucket, and reports whether S3 has answered.
func (s *store) lookAtLock(ctx context.Context, bucket string, state *bucketState) (bool, error) {
	output, err := s.calls.GetObjectLockConfiguration(ctx, &s3.GetObjectLockConfigurationInput{Bucket: &bucket})
	switch {
	case hasCode(err, "ObjectLockConfigurationNotFoundError"), hasCode(err, "InvalidRequest"):
		state.locks.Lock = objectstorev1.No
		return true, nil
	case hasCode(err, "NoSuchBucket"):
		return false, err
	case isRefused(err):
		return false, nil
	case err != nil:
		return false, err
	}
	state.skew = skewOf(output.ResultMetadata)
	enabled := output.ObjectLockConfiguration != nil &&
		output.ObjectLockConfiguration.ObjectLockEnabled == types.ObjectLockEnabledEnabled
	state.locks.Lock = objectstorev1.AnswerOf(enabled)
	if !enabled {
		return true, nil
	}
	state.locks.Versions = objectstorev1.Yes // Object Lock needs them
	if rule := output.ObjectLockConfiguration.Rule; rule != nil && rule.DefaultRetention != nil {
		const day = 24 * time.Hour
		state.locks.DefaultMode = objectstorev1.LockMode(rule.DefaultRetention.Mode)
		state.locks.DefaultFor = time.Duration(aws.ToInt32(rule.DefaultRetention.Days))*day +
			time.Duration(aws.ToInt32(rule.DefaultRetention.Years))*365*day
	}
	return true, nil
}

// skewOf returns by how much the clock of this process differs from the date of a reply.
func skewOf(reply middleware.Metadata) time.Duration {
	at, known := awsmiddleware.GetServerTime(reply)
	if !known || at.IsZero() {
		return 0
	}
	return time.Since(at)
}

// conditional is whether the server takes conditional writes. Only a write shows that for servers other than Amazon's.
func (s *store) conditional() objectstorev1.Answer {
	if s.config.S3URL == "" {
		return objectstorev1.Yes
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conditions
}

// learn notes whether the server takes conditional writes.
func (s *store) learn(takes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conditions = objectstorev1.AnswerOf(takes)
}

// lock is how an object is locked when it is written. The zero value is not at all.
type lock struct {
	mode  types.ObjectLockMode
	until time.Time
}

// lockOf returns how a new object is locked. A time that has passed locks nothing.
func (s *store) lockOf(input *objectstorev1.PutObjectInput) lock {
	mode, until := s.config.mode(), input.RetainUntil
	if mode == "" || until.IsZero() {
		return lock{}
	}
	if fixed := s.config.ObjectLockFor.Duration; fixed > 0 {
		until = time.Now().Add(fixed)
	}
	if whole := until.Truncate(time.Second); whole.Before(until) { // S3 knows whole seconds
		until = whole.Add(time.Second)
	}
	if !until.After(time.Now()) {
		return lock{}
	}
	return lock{mode: types.ObjectLockMode(mode), until: until.UTC()}
}

// at returns the time for a request, or nil.
func (l lock) at() *time.Time {
	if l.mode == "" {
		return nil
	}
	return &l.until
}

// SetHold sets or ends the legal hold of an object: of its newest version, or of the one that a delete marker hides.
func (s *store) SetHold(ctx context.Context, input *objectstorev1.SetHoldInput) error {
	state, err := s.state(ctx, input.Bucket)
	if err != nil {
		return s.failed("hold", input.Bucket, input.Key, err)
	}
	if state.locks.Lock != objectstorev1.Yes {
		return fmt.Errorf("bucket %q has no Object Lock, so that it cannot hold %s: %w", input.Bucket, input.Key,
			errors.ErrUnsupported)
	}
	version, _, err := s.newest(ctx, state, input.Bucket, input.Key)
	if err != nil {
		return err
	}
	status := types.ObjectLockLegalHoldStatusOff
	if input.On {
		status = types.ObjectLockLegalHoldStatusOn
	}
	_, err = s.calls.PutObjectLegalHold(ctx, &s3.PutObjectLegalHoldInput{
		Bucket: &input.Bucket, Key: &input.Key, VersionId: version,
		LegalHold: &types.ObjectLockLegalHold{Status: status},
	})
	if err != nil {
		return s.failed("hold", input.Bucket, input.Key, err)
	}
	return nil
}

// Retention reports until when an object is kept.
func (s *store) Retention(
	ctx context.Context, input *objectstorev1.RetentionInput,
) (*objectstorev1.Retention, error) {
	state, err := s.state(ctx, input.Bucket)
	if err != nil {
		return nil, s.failed("look for the lock of", input.Bucket, input.Key, err)
	}
	if state.locks.Lock != objectstorev1.Yes {
		return nil, fmt.Errorf("bucket %q has no Object Lock: %w", input.Bucket, errors.ErrUnsupported)
	}
	_, kept, err := s.newest(ctx, state, input.Bucket, input.Key)
	return kept, err
}

// newest returns until when the newest version of an object is kept, or the one that a delete marker hides, with the id
// of the latter.
func (s *store) newest(
	ctx context.Context, state bucketState, bucket, key string,
) (version *string, kept *objectstorev1.Retention, err error) {
	if kept, err = s.retention(ctx, bucket, key, nil); err == nil {
		return nil, kept, nil
	}
	isMarker := hasCode(err, "MethodNotAllowed")
	failed := s.failed("look for the lock of", bucket, key, err)
	if isMarker {
		failed = framework.NotFound("look for the lock of %s in bucket %q: %s", key, bucket, noSuchObject)
	}
	if !state.hides() || !isMarker && !errors.Is(failed, framework.ErrNotFound) {
		return nil, nil, failed
	}
	found, hidden, err := s.hidden(ctx, bucket, key)
	switch {
	case err != nil:
		return nil, nil, s.failed("list the versions of", bucket, key, err)
	case hidden == nil:
		return nil, nil, failed
	}
	return &found, hidden, nil
}

// retention returns until when a version of an object is kept; the newest one if version is nil. HEAD requests leave it
// out if the credentials lack a right, and on some servers for older versions.
func (s *store) retention(ctx context.Context, bucket, key string, version *string) (*objectstorev1.Retention, error) {
	kept := &objectstorev1.Retention{}
	locked, err := s.calls.GetObjectRetention(ctx, &s3.GetObjectRetentionInput{Bucket: &bucket, Key: &key,
		VersionId: version})
	switch {
	case hasNoLock(err):
	case err != nil:
		return nil, withRight(err, "s3:GetObjectRetention")
	case locked.Retention != nil && locked.Retention.Mode != "" && locked.Retention.RetainUntilDate != nil:
		kept.Mode, kept.Until = objectstorev1.LockMode(locked.Retention.Mode), *locked.Retention.RetainUntilDate
	}
	held, err := s.calls.GetObjectLegalHold(ctx, &s3.GetObjectLegalHoldInput{Bucket: &bucket, Key: &key,
		VersionId: version})
	switch {
	case hasNoLock(err):
	case err != nil:
		return nil, withRight(err, "s3:GetObjectLegalHold")
	case held.LegalHold != nil:
		kept.Held = held.LegalHold.Status == types.ObjectLockLegalHoldStatusOn
	}
	return kept, nil
}

// hasNoLock reports whether an error means that an object, or its bucket, has no lock.
func hasNoLock(err error) bool {
	return hasCode(err, "NoSuchObjectLockConfiguration", "ObjectLockConfigurationNotFoundError", "InvalidRequest")
}

// withRight says which right a refused call needs.
func withRight(err error, right string) error {
	if isDenied(err) {
		return fmt.Errorf("%w; it needs the right %s", err, right)
	}
	return err
}
