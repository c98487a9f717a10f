package s3store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/cleat-dev/cleat/framework"
	objectstorev1 "github.com/cleat-dev/cleat/framework/objectstore/v1"
)

// A bucket with versions answers a plain deletion with a delete marker, below which the object goes on to exist. So this
// store deletes versions, and a marker that hides a version which is locked hides nothing from it: who put it there
// could not delete the object.

// object is what a list of versions has about one key.
type object struct {
	key      string
	versions []string // newest first
	markers  []string // the ids of delete markers, newest first
	deleted  bool     // the newest of all is a delete marker
}

// objectsBelow returns the objects whose keys start with a prefix, with their versions.
func (s *store) objectsBelow(ctx context.Context, bucket, prefix string) ([]*object, error) {
	byKey := map[string]*object{}
	at := func(key *string) *object {
		found := byKey[aws.ToString(key)]
		if found == nil {
			found = &object{key: aws.ToString(key)}
			byKey[found.key] = found
		}
		return found
	}
	pages := s3.NewListObjectVersionsPaginator(s.calls, &s3.ListObjectVersionsInput{Bucket: &bucket, Prefix: &prefix})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for i := range page.Versions {
			found := at(page.Versions[i].Key)
			found.versions = append(found.versions, aws.ToString(page.Versions[i].VersionId))
		}
		for i := range page.DeleteMarkers {
			found := at(page.DeleteMarkers[i].Key)
			found.markers = append(found.markers, aws.ToString(page.DeleteMarkers[i].VersionId))
			found.deleted = found.deleted || aws.ToBool(page.DeleteMarkers[i].IsLatest)
		}
	}
	all := make([]*object, 0, len(byKey))
	for _, found := range byKey {
		all = append(all, found)
	}
	slices.SortFunc(all, func(a, b *object) int { return bytes.Compare([]byte(a.key), []byte(b.key)) })
	return all, nil
}

// versionsOf returns the versions of one object, or nil if there are none.
func (s *store) versionsOf(ctx context.Context, bucket, key string) (*object, error) {
	input := &s3.ListObjectVersionsInput{Bucket: &bucket, Prefix: &key}
	found := &object{key: key}
	for pages := s3.NewListObjectVersionsPaginator(s.calls, input); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		beyond := false // the key itself comes first of those that start with it
		for i := range page.Versions {
			if aws.ToString(page.Versions[i].Key) != key {
				beyond = true
				continue
			}
			found.versions = append(found.versions, aws.ToString(page.Versions[i].VersionId))
		}
		for i := range page.DeleteMarkers {
			if aws.ToString(page.DeleteMarkers[i].Key) != key {
				beyond = true
				continue
			}
			found.markers = append(found.markers, aws.ToString(page.DeleteMarkers[i].VersionId))
			found.deleted = found.deleted || aws.ToBool(page.DeleteMarkers[i].IsLatest)
		}
		if beyond {
			break
		}
	}
	if len(found.versions)+len(found.markers) == 0 {
		return nil, nil //nolint:nilnil // there are none and that is right
	}
	return found, nil
}

// hiddenOf returns the newest version of an object whose newest entry is a delete marker, if that version is kept; none
// if it is not.
func (s *store) hiddenOf(
	ctx context.Context, bucket string, of *object,
) (version string, kept *objectstorev1.Retention, err error) {
	if kept, err = s.retentionBelow(ctx, bucket, of); kept == nil || !kept.Keeps(time.Now()) {
		return "", nil, err
	}
	return of.versions[0], kept, nil
}

// retentionBelow returns until when the newest version of an object is kept whose newest entry is a delete marker; nil
// if it is not, or if there is an error.
func (s *store) retentionBelow(ctx context.Context, bucket string, of *object) (*objectstorev1.Retention, error) {
	if of == nil || !of.deleted || len(of.versions) == 0 {
		return nil, nil //nolint:nilnil // there is none and that is right
	}
	return s.retention(ctx, bucket, of.key, &of.versions[0])
}

// hidden is hiddenOf for a key.
func (s *store) hidden(
	ctx context.Context, bucket, key string,
) (version string, kept *objectstorev1.Retention, err error) {
	of, err := s.versionsOf(ctx, bucket, key)
	if err != nil {
		return "", nil, err
	}
	return s.hiddenOf(ctx, bucket, of)
}

// DeleteObject removes all versions of an object, or none if one of them is locked: the error has the time then. It never
// uses the right to delete what is locked in governance mode.
func (s *store) DeleteObject(ctx context.Context, input *objectstorev1.DeleteObjectInput) error {
	state, err := s.state(ctx, input.Bucket)
	if err != nil {
		return s.failed("delete", input.Bucket, input.Key, err)
	}
	locks := state.locks.Lock == objectstorev1.Yes
	if state.locks.Versions != objectstorev1.Yes || !state.lists && !locks || !inParts(input.Key) {
		return s.Calls.DeleteObject(ctx, input)
	}
	of, err := s.versionsOf(ctx, input.Bucket, input.Key)
	if err != nil {
		return s.failed("list the versions of", input.Bucket, input.Key, err)
	}
	if of == nil {
		return nil
	}
	if locks {
		if err := s.checkUnlocked(ctx, input, of); err != nil {
			return err
		}
	}
	for i, version := range of.deletionOrder() {
		_, err := s.calls.DeleteObject(ctx,
			&s3.DeleteObjectInput{Bucket: &input.Bucket, Key: &input.Key, VersionId: &version})
		switch {
		case err == nil:
		case i == 0 && !locks && isDenied(err): // the user keeps versions from this server
			return s.Calls.DeleteObject(ctx, input)
		default:
			return s.failed("delete", input.Bucket, input.Key, err)
		}
	}
	return nil
}

// deletionOrder returns all entries of an object, what is newest last: an interrupted deletion does not bring back what
// had been replaced or deleted.
func (o *object) deletionOrder() []string {
	versions, markers := slices.Clone(o.versions), slices.Clone(o.markers)
	slices.Reverse(versions)
	slices.Reverse(markers)
	if o.deleted {
		return append(versions, markers...)
	}
	return append(markers, versions...)
}

// checkUnlocked returns a framework.ErrLocked if a version of an object is locked.
func (s *store) checkUnlocked(ctx context.Context, input *objectstorev1.DeleteObjectInput, of *object) error {
	var until time.Time
	held := false
	for _, version := range of.versions {
		kept, err := s.retention(ctx, input.Bucket, input.Key, &version)
		if err != nil {
			return s.failed("look for the lock of", input.Bucket, input.Key, err)
		}
		held = held || kept.Held
		if kept.Keeps(time.Now()) && kept.Until.After(until) {
			until = kept.Until
		}
	}
	return lockedError(input.Bucket, input.Key, until, held)
}

// lockedError returns the error for an object that is kept; nil if it is not.
func lockedError(bucket, key string, until time.Time, held bool) error {
	switch {
	case held:
		return framework.Locked(until, true, "delete %s in bucket %q: it has a legal hold", key, bucket)
	case !until.IsZero():
		return framework.Locked(until, false, "delete %s in bucket %q: it is locked until %s", key, bucket,
			until.UTC().Format(time.RFC3339))
	}
	return nil
}

// ObjectExists reports whether the object exists, or is locked and hidden by a delete marker.
func (s *store) ObjectExists(
	ctx context.Context, input *objectstorev1.ObjectExistsInput,
) (*objectstorev1.ObjectExistsOutput, error) {
	output, err := s.Calls.ObjectExists(ctx, input)
	if err != nil || output.Exists {
		return output, err
	}
	version, err := s.behindMarker(ctx, input.Bucket, input.Key)
	return &objectstorev1.ObjectExistsOutput{Exists: version != ""}, err
}

// behindMarker returns the version of an object that is locked and hidden by a delete marker; "" if there is none.
func (s *store) behindMarker(ctx context.Context, bucket, key string) (string, error) {
	state, err := s.state(ctx, bucket)
	if err != nil {
		return "", s.failed("look for", bucket, key, err)
	}
	if !state.hides() || !inParts(key) {
		return "", nil
	}
	version, _, err := s.hidden(ctx, bucket, key)
	if err != nil {
		return "", s.failed("list the versions of", bucket, key, err)
	}
	return version, nil
}

// GetObject opens an object, also one that is locked and hidden by a delete marker.
func (s *store) GetObject(
	ctx context.Context, input *objectstorev1.GetObjectInput,
) (*objectstorev1.GetObjectOutput, error) {
	output, err := s.Calls.GetObject(ctx, input)
	if !errors.Is(err, framework.ErrNotFound) {
		return output, err
	}
	version, errHidden := s.behindMarker(ctx, input.Bucket, input.Key)
	if version == "" {
		return nil, errors.Join(err, errHidden)
	}
	output, err = s.getVersion(ctx, input, version)
	if err != nil {
		return nil, s.failed("read", input.Bucket, input.Key, err)
	}
	return output, nil
}

// getVersion opens a version of an object.
func (s *store) getVersion(
	ctx context.Context, input *objectstorev1.GetObjectInput, version string,
) (*objectstorev1.GetObjectOutput, error) {
	request := &s3.GetObjectInput{Bucket: &input.Bucket, Key: &input.Key, VersionId: &version}
	if input.Range == nil {
		opened, err := s.calls.GetObject(ctx, request)
		if err != nil {
			return nil, err
		}
		return &objectstorev1.GetObjectOutput{Body: opened.Body}, nil
	}
	head, err := s.calls.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &input.Bucket, Key: &input.Key, VersionId: &version})
	if err != nil {
		return nil, err
	}
	offset, length := input.Range.In(aws.ToInt64(head.ContentLength))
	output := &objectstorev1.GetObjectOutput{
		Body: io.NopCloser(bytes.NewReader(nil)),
		Part: &objectstorev1.Part{Offset: offset, Size: aws.ToInt64(head.ContentLength)},
	}
	if length == 0 { // for which S3 has an error
		return output, nil
	}
	request.Range = aws.String(fmt.Sprintf("bytes=%d-%d", offset, offset+length-1))
	opened, err := s.calls.GetObject(ctx, request)
	if err != nil {
		return nil, err
	}
	output.Body = opened.Body
	return output, nil
}

// ListObjects lists the keys that start with a prefix, also of objects that are or were locked and are hidden by delete
// markers: whoever deletes what is listed deletes those too when their time has come.
func (s *store) ListObjects(
	ctx context.Context, input *objectstorev1.ListObjectsInput,
) (*objectstorev1.ListObjectsOutput, error) {
	state, err := s.state(ctx, input.Bucket)
	if err != nil || !state.hides() {
		return s.Calls.ListObjects(ctx, input) // which has the error too
	}
	all, err := s.objectsBelow(ctx, input.Bucket, input.Prefix)
	if err != nil {
		return nil, s.failed("list", input.Bucket, input.Prefix, err)
	}
	output := &objectstorev1.ListObjectsOutput{}
	for _, of := range all {
		there := !of.deleted && len(of.versions) > 0
		if !there {
			kept, err := s.retentionBelow(ctx, input.Bucket, of)
			if err != nil {
				return nil, s.failed("look for the lock of", input.Bucket, of.key, err)
			}
			there = kept != nil && (kept.Held || kept.Mode != "")
		}
		if there {
			output.Keys = append(output.Keys, of.key)
		}
	}
	return output, nil
}

// ListCommonPrefixes lists the common prefixes directly below a prefix, also of objects that are locked and hidden by
// delete markers.
func (s *store) ListCommonPrefixes(
	ctx context.Context, input *objectstorev1.ListCommonPrefixesInput,
) (*objectstorev1.ListCommonPrefixesOutput, error) {
	plain, err := s.Calls.ListCommonPrefixes(ctx, input)
	if err != nil {
		return nil, err
	}
	state, err := s.state(ctx, input.Bucket)
	if err != nil || !state.hides() {
		return plain, nil //nolint:nilerr // the plain list has succeeded, and is asked for again
	}
	var more []string
	pages := s3.NewListObjectVersionsPaginator(s.calls, &s3.ListObjectVersionsInput{Bucket: &input.Bucket,
		Prefix: &input.Prefix, Delimiter: &input.Delimiter})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, s.failed("list the versions in", input.Bucket, input.Prefix, err)
		}
		for _, common := range page.CommonPrefixes {
			prefix := aws.ToString(common.Prefix)
			if _, listed := slices.BinarySearch(plain.Prefixes, prefix); listed || slices.Contains(more, prefix) {
				continue
			}
			if hides, err := s.anyHidden(ctx, input.Bucket, prefix); err != nil {
				return nil, s.failed("list the versions in", input.Bucket, prefix, err)
			} else if hides {
				more = append(more, prefix)
			}
		}
	}
	plain.Prefixes = append(plain.Prefixes, more...)
	slices.Sort(plain.Prefixes)
	return plain, nil
}

// anyHidden reports whether an object whose key starts with a prefix is locked and hidden by a delete marker.
func (s *store) anyHidden(ctx context.Context, bucket, prefix string) (bool, error) {
	all, err := s.objectsBelow(ctx, bucket, prefix)
	if err != nil {
		return false, err
	}
	for _, of := range all {
		if version, _, err := s.hiddenOf(ctx, bucket, of); err != nil || version != "" {
			return version != "", err
		}
	}
	return false, nil
}

// isRefused reports whether S3 has refused a call, because it has no such call or the credentials lack the right.
func isRefused(err error) bool {
	code := statusOf(err)
	return code == 501 || code >= 400 && code < 500
}

// isDenied reports whether the credentials lack a right, or a lock keeps an object.
func isDenied(err error) bool { return hasCode(err, "AccessDenied") }

// statusOf returns the HTTP status of an error of S3; 0 if it has none.
func statusOf(err error) int {
	var reply interface{ HTTPStatusCode() int }
	if errors.As(err, &reply) {
		return reply.HTTPStatusCode()
	}
	return 0
}
