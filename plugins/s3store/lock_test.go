package s3store_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework"
	objectstorev1 "github.com/cleat-dev/cleat/framework/objectstore/v1"
	"github.com/cleat-dev/cleat/plugins/s3store"
	"github.com/cleat-dev/cleat/server/test/controlplane"
)

// vault is a bucket with Object Lock, its store, and an intruder with all rights but that of a bypass.
type vault struct {
	objectstorev1.Locker
	bucket   string
	intruder *s3.Client
}

func newVault(t *testing.T, change func(*s3store.Config)) vault {
	t.Helper()
	c := plane.Get(t)
	return vault{openLocker(t, c, change), c.NewLockingBucket(t, "vault", nil), c.S3Client()}
}

func openLocker(t *testing.T, c *controlplane.Cluster, change func(*s3store.Config)) objectstorev1.Locker {
	t.Helper()
	config := config(t, c)
	config.ObjectLockMode = "GOVERNANCE"
	if change != nil {
		change(&config)
	}
	opened, err := s3store.New(t.Context(), config)
	require.NoError(t, err)
	locker, ok := opened.(objectstorev1.Locker)
	require.True(t, ok)
	return locker
}

func (v vault) put(t *testing.T, key, content string, until time.Time) {
	t.Helper()
	require.NoError(t, v.PutObject(t.Context(), &objectstorev1.PutObjectInput{Bucket: v.bucket, Key: key,
		Body: strings.NewReader(content), RetainUntil: until}))
}

func (v vault) read(t *testing.T, key string, part *objectstorev1.Range) (string, error) {
	t.Helper()
	object, err := v.GetObject(t.Context(), &objectstorev1.GetObjectInput{Bucket: v.bucket, Key: key, Range: part})
	if err != nil {
		return "", err
	}
	content, err := io.ReadAll(object.Body)
	require.NoError(t, err)
	require.NoError(t, object.Body.Close())
	return string(content), nil
}

func (v vault) retention(t *testing.T, key string) objectstorev1.Retention {
	t.Helper()
	kept, err := v.Retention(t.Context(), &objectstorev1.RetentionInput{Bucket: v.bucket, Key: key})
	require.NoError(t, err)
	return *kept
}

func (v vault) hold(t *testing.T, key string, on bool) {
	t.Helper()
	require.NoError(t, v.SetHold(t.Context(), &objectstorev1.SetHoldInput{Bucket: v.bucket, Key: key, On: on}))
}

func (v vault) delete(t *testing.T, key string) error {
	t.Helper()
	return v.DeleteObject(t.Context(), &objectstorev1.DeleteObjectInput{Bucket: v.bucket, Key: key})
}

// entries returns the number of versions and delete markers of a key.
func (v vault) entries(t *testing.T, key string) (versions, markers int) {
	t.Helper()
	all, err := v.intruder.ListObjectVersions(t.Context(), &s3.ListObjectVersionsInput{Bucket: &v.bucket, Prefix: &key})
	require.NoError(t, err)
	return len(all.Versions), len(all.DeleteMarkers)
}

// strike deletes as one does who has the credentials: with a delete marker.
func (v vault) strike(t *testing.T, key string) {
	t.Helper()
	_, err := v.intruder.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: &v.bucket, Key: &key})
	require.NoError(t, err)
}

func (v vault) lists(t *testing.T, prefix string) []string {
	t.Helper()
	all, err := v.ListObjects(t.Context(), &objectstorev1.ListObjectsInput{Bucket: v.bucket, Prefix: prefix})
	require.NoError(t, err)
	return all.Keys
}

func (v vault) folders(t *testing.T) []string {
	t.Helper()
	all, err := v.ListCommonPrefixes(t.Context(), &objectstorev1.ListCommonPrefixesInput{Bucket: v.bucket,
		Prefix: "backups/", Delimiter: "/"})
	require.NoError(t, err)
	return all.Prefixes
}

// Objects of any size are locked as the config says, with any checksum.
func TestObjectsAreLocked(t *testing.T) {
	t.Parallel()
	ttl := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	for name, test := range map[string]struct {
		change func(*s3store.Config)
		asked  time.Time
		mode   objectstorev1.LockMode
		until  time.Time
	}{
		"until the backup expires": {func(*s3store.Config) {}, ttl, objectstorev1.ModeGovernance, ttl},
		"in compliance mode": {func(c *s3store.Config) { c.ObjectLockMode = "compliance" }, ttl,
			objectstorev1.ModeCompliance, ttl},
		"without a checksum": {func(c *s3store.Config) { c.ChecksumAlgorithm = "" }, ttl,
			objectstorev1.ModeGovernance, ttl},
		"up to a whole second": {nil, ttl.Add(time.Millisecond), objectstorev1.ModeGovernance, ttl.Add(time.Second)},
		"for a time": {func(c *s3store.Config) { c.ObjectLockFor.Duration = 24 * time.Hour }, ttl,
			objectstorev1.ModeGovernance, time.Now().Add(24 * time.Hour)},
		"not without a time": {func(c *s3store.Config) { c.ObjectLockFor.Duration = 24 * time.Hour }, time.Time{}, "",
			time.Time{}},
		"not for a past time":  {nil, time.Now().Add(-time.Hour), "", time.Time{}},
		"not without the mode": {func(c *s3store.Config) { c.ObjectLockMode = "" }, ttl, "", time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newVault(t, test.change)
			for key, size := range map[string]int{"backups/b/small": 100, "backups/b/large": 11 << 20, "backups/b/empty": 0} {
				v.put(t, key, strings.Repeat("x", size), test.asked)
				kept := v.retention(t, key)
				require.Equal(t, test.mode, kept.Mode, key)
				require.WithinDuration(t, test.until, kept.Until, time.Minute, key)
				err := v.delete(t, key)
				var locked *framework.LockedError
				if test.mode == "" {
					require.NoError(t, err, key)
					continue
				}
				require.ErrorIs(t, err, framework.ErrLocked, key)
				require.ErrorAs(t, err, &locked)
				require.True(t, kept.Until.Equal(locked.Until))
				require.ErrorContains(t, err, "it is locked until "+kept.Until.UTC().Format(time.RFC3339))
				content, err := v.read(t, key, nil)
				require.NoError(t, err)
				require.Len(t, content, size)
			}
		})
	}
}

func TestDeletionEndsAllVersions(t *testing.T) {
	t.Parallel()
	v := newVault(t, nil)
	for _, content := range []string{"one", "two"} {
		v.put(t, "backups/b/log", content, time.Time{})
	}
	v.strike(t, "backups/b/log")
	v.put(t, "backups/b/log", "three", time.Time{})
	v.put(t, "backups/b/log2", "another", time.Time{})
	require.NoError(t, v.delete(t, "backups/b/log"))
	versions, markers := v.entries(t, "backups/b/log")
	require.Equal(t, []int{1, 0}, []int{versions, markers}, "only that of the other key is left")
	require.NoError(t, v.delete(t, "backups/b/log"), "again")
	require.Equal(t, []string{"backups/b/log2"}, v.lists(t, "backups/"))

	// An older version that is locked keeps all of them.
	v.put(t, "backups/c/log", "one", time.Now().Add(time.Hour))
	v.put(t, "backups/c/log", "two", time.Time{})
	require.ErrorIs(t, v.delete(t, "backups/c/log"), framework.ErrLocked)
	versions, markers = v.entries(t, "backups/c/log")
	require.Equal(t, []int{2, 0}, []int{versions, markers})
}

func TestBucketWithVersionsOnlyIsEmptiedToo(t *testing.T) {
	t.Parallel()
	c := plane.Get(t)
	v := vault{openLocker(t, c, func(c *s3store.Config) { c.ObjectLockMode = "" }), c.NewVersionedBucket(t, "versions"),
		c.S3Client()}
	v.put(t, "backups/b/log", "one", time.Time{})
	v.put(t, "backups/b/log", "two", time.Time{})
	require.NoError(t, v.delete(t, "backups/b/log"))
	versions, markers := v.entries(t, "backups/b/log")
	require.Equal(t, []int{0, 0}, []int{versions, markers})
	locks, err := v.Locks(t.Context(), &objectstorev1.LocksInput{Bucket: v.bucket})
	require.NoError(t, err)
	require.Equal(t, &objectstorev1.Locks{Versions: objectstorev1.Yes, Lock: objectstorev1.No}, locks)
	err = v.SetHold(t.Context(), &objectstorev1.SetHoldInput{Bucket: v.bucket, Key: "backups/b/log", On: true})
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.ErrorContains(t, err, "has no Object Lock")
	_, err = v.Retention(t.Context(), &objectstorev1.RetentionInput{Bucket: v.bucket, Key: "backups/b/log"})
	require.ErrorIs(t, err, errors.ErrUnsupported)
}

// An intruder who has the credentials deletes everything, and hides nothing that is locked.
func TestDeleteMarkersHideNothingThatIsLocked(t *testing.T) {
	t.Parallel()
	v := newVault(t, nil)
	v.put(t, "backups/kept/velero-backup.json", "0123456789", time.Now().Add(time.Hour))
	v.put(t, "backups/held/velero-backup.json", "held", time.Time{})
	v.hold(t, "backups/held/velero-backup.json", true)
	v.put(t, "backups/free/velero-backup.json", "free", time.Time{})
	v.put(t, "backups/there/velero-backup.json", "there", time.Now().Add(time.Hour))
	for range 2 {
		for _, name := range []string{"kept", "held", "free"} {
			v.strike(t, "backups/"+name+"/velero-backup.json")
		}
	}
	require.Subset(t, v.folders(t), []string{"backups/held/", "backups/kept/", "backups/there/"})
	require.Equal(t, []string{"backups/held/velero-backup.json", "backups/kept/velero-backup.json",
		"backups/there/velero-backup.json"}, v.lists(t, "backups/"))
	for key, there := range map[string]bool{"kept": true, "held": true, "free": false, "there": true, "none": false} {
		found, err := v.ObjectExists(t.Context(), &objectstorev1.ObjectExistsInput{Bucket: v.bucket,
			Key: "backups/" + key + "/velero-backup.json"})
		require.NoError(t, err)
		require.Equal(t, there, found.Exists, key)
	}
	content, err := v.read(t, "backups/kept/velero-backup.json", nil)
	require.NoError(t, err)
	require.Equal(t, "0123456789", content)
	content, err = v.read(t, "backups/kept/velero-backup.json", &objectstorev1.Range{Offset: -3, Length: 2})
	require.NoError(t, err)
	require.Equal(t, "78", content)
	_, err = v.read(t, "backups/free/velero-backup.json", nil)
	require.ErrorIs(t, err, framework.ErrNotFound)
	require.True(t, v.retention(t, "backups/held/velero-backup.json").Held)
	require.ErrorIs(t, v.delete(t, "backups/kept/velero-backup.json"), framework.ErrLocked)

	err = v.PutObject(t.Context(), &objectstorev1.PutObjectInput{Bucket: v.bucket, Key: "backups/kept/velero-backup.json",
		Body: strings.NewReader("other"), IfAbsent: true})
	require.ErrorIs(t, err, framework.ErrExists)

	v.hold(t, "backups/held/velero-backup.json", false)
	require.Empty(t, v.lists(t, "backups/held/"), "nothing keeps it any more")
	require.NoError(t, v.delete(t, "backups/held/velero-backup.json"))
	versions, markers := v.entries(t, "backups/held/")
	require.Equal(t, []int{0, 0}, []int{versions, markers})
}

func TestHiddenObjectsAreDeletedAfterTheirTime(t *testing.T) {
	t.Parallel()
	v := newVault(t, nil)
	const key = "backups/b/log"
	v.put(t, key, "x", time.Now().Add(2*time.Second))
	v.strike(t, key)
	require.Eventually(t, func() bool {
		found, err := v.ObjectExists(t.Context(), &objectstorev1.ObjectExistsInput{Bucket: v.bucket, Key: key})
		return err == nil && !found.Exists
	}, time.Minute, 100*time.Millisecond)
	require.Equal(t, []string{key}, v.lists(t, "backups/b/"))
	require.NoError(t, v.delete(t, key))
	versions, markers := v.entries(t, key)
	require.Equal(t, []int{0, 0}, []int{versions, markers})
	require.Empty(t, v.lists(t, "backups/b/"))
}

func TestHoldsOutlastLocks(t *testing.T) {
	t.Parallel()
	v := newVault(t, nil)
	const key = "backups/b/log"
	v.put(t, key, "x", time.Now().Add(2*time.Second))
	v.hold(t, key, true)
	v.hold(t, key, true)
	require.Eventually(t, func() bool { return v.retention(t, key).Until.Before(time.Now()) }, time.Minute,
		100*time.Millisecond)
	err := v.delete(t, key)
	var locked *framework.LockedError
	require.ErrorAs(t, err, &locked)
	require.True(t, locked.Held)
	require.ErrorContains(t, err, "it has a legal hold")
	v.hold(t, key, false)
	require.NoError(t, v.delete(t, key))
	require.ErrorIs(t, v.SetHold(t.Context(), &objectstorev1.SetHoldInput{Bucket: v.bucket, Key: key, On: true}),
		framework.ErrNotFound)
	_, err = v.Retention(t.Context(), &objectstorev1.RetentionInput{Bucket: v.bucket, Key: key})
	require.ErrorIs(t, err, framework.ErrNotFound)
}

func TestLocksOfBuckets(t *testing.T) {
	t.Parallel()
	c := plane.Get(t)
	rule := &types.DefaultRetention{Mode: types.ObjectLockRetentionModeCompliance, Days: aws.Int32(3)}
	for name, test := range map[string]struct {
		bucket string
		change func(*s3store.Config)
		want   objectstorev1.Locks
		err    string
	}{
		"a mode": {c.NewLockingBucket(t, "locks", nil), nil, objectstorev1.Locks{Versions: objectstorev1.Yes,
			Lock: objectstorev1.Yes, Mode: objectstorev1.ModeGovernance}, ""},
		"a fixed time": {c.NewLockingBucket(t, "locks", nil),
			func(c *s3store.Config) { c.ObjectLockFor.Duration = time.Hour },
			objectstorev1.Locks{Versions: objectstorev1.Yes, Lock: objectstorev1.Yes, Mode: objectstorev1.ModeGovernance,
				KeepFor: time.Hour}, ""},
		"that of the bucket": {c.NewLockingBucket(t, "locks", rule), func(c *s3store.Config) { c.ObjectLockMode = "" },
			objectstorev1.Locks{Versions: objectstorev1.Yes, Lock: objectstorev1.Yes,
				DefaultMode: objectstorev1.ModeCompliance, DefaultFor: 72 * time.Hour}, ""},
		"no Object Lock": {c.NewBucket(t, "locks"), nil, objectstorev1.Locks{},
			"config.objectLockMode is GOVERNANCE, and bucket"},
		"nothing": {c.NewBucket(t, "locks"), func(c *s3store.Config) { c.ObjectLockMode = "" },
			objectstorev1.Locks{Versions: objectstorev1.No, Lock: objectstorev1.No}, ""},
		"no bucket": {"no-such-bucket", nil, objectstorev1.Locks{}, "the bucket does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			locks, err := openLocker(t, c, test.change).Locks(t.Context(), &objectstorev1.LocksInput{Bucket: test.bucket})
			if test.err != "" {
				require.ErrorContains(t, err, test.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, &test.want, locks)
		})
	}
}

// A bucket that lost its Object Lock, or never had it, refuses what is to be locked.
func TestRefusedRetentionSaysWhatToDo(t *testing.T) {
	t.Parallel()
	c := plane.Get(t)
	for _, size := range []int{10, 6 << 20} {
		err := openLocker(t, c, nil).PutObject(t.Context(), &objectstorev1.PutObjectInput{
			Bucket: c.NewBucket(t, "refuses"), Key: "backups/b/log", Body: strings.NewReader(strings.Repeat("x", size)),
			RetainUntil: time.Now().Add(time.Hour)})
		require.ErrorContains(t, err, "the bucket has no Object Lock, which config.objectLockMode needs")
	}
}

func TestLockedObjectIsCreatedOnce(t *testing.T) {
	t.Parallel()
	v := newVault(t, nil)
	for key, size := range map[string]int{"backups/b/small": 100, "backups/b/large": 11 << 20} {
		put := func() error {
			return v.PutObject(t.Context(), &objectstorev1.PutObjectInput{Bucket: v.bucket, Key: key, IfAbsent: true,
				Body: strings.NewReader(strings.Repeat("x", size)), RetainUntil: time.Now().Add(time.Hour)})
		}
		require.NoError(t, put())
		require.ErrorIs(t, put(), framework.ErrExists)
		require.Equal(t, objectstorev1.ModeGovernance, v.retention(t, key).Mode)
	}
	locks, err := v.Locks(t.Context(), &objectstorev1.LocksInput{Bucket: v.bucket})
	require.NoError(t, err)
	require.Equal(t, objectstorev1.Yes, locks.ConditionalWrites)
}
