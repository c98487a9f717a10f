// Package storetest is the contract of the kind ObjectStore as a test: what the server relies on, whatever
// the storage. The built-in object stores run it in their tests.
//
// It may import framework and testify. Start with Run.
package storetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	objectstorev1 "github.com/cleat-dev/cleat/framework/objectstore/v1"
)

// Fixture is one kind of storage.
type Fixture struct {
	// New is a store after its Init and an empty bucket in it. It is called for each test.
	New func(t *testing.T) (store objectstorev1.ObjectStore, bucket string)
	// Fresh is a store before its Init.
	Fresh func(t *testing.T) objectstorev1.ObjectStore
	// Fetch reads a signed URL as a client without credentials does.
	Fetch func(t *testing.T, url string) []byte
	// Unfinished lists what uploads that did not end well have left behind.
	Unfinished func(t *testing.T, bucket string) []string
}

// Run runs the suite. Its tests run in parallel.
func Run(t *testing.T, fixture Fixture) {
	for name, test := range map[string]func(*testing.T, Fixture){
		"objects come back as they were put":             roundTrip,
		"a second put replaces the object":               replace,
		"an object exists from its put to its deletion":  exists,
		"listing finds prefixes and keys":                list,
		"listing an empty bucket finds nothing":          listEmpty,
		"listing goes beyond a page":                     listMany,
		"keys with odd characters":                       oddKeys,
		"a missing object is an error that names it":     missing,
		"a large object streams both ways":               large,
		"a body that fails leaves nothing":               brokenBody,
		"a cancelled upload leaves nothing":              cancelled,
		"a put that fails keeps the object of before":    brokenReplace,
		"a signed URL can be read without credentials":   signedURL,
		"a missing bucket is an error that says so":      missingBucket,
		"a read that is given up early can be closed":    earlyClose,
		"a call before Init is an error and not a panic": beforeInit,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, fixture)
		})
	}
}

func put(t *testing.T, s objectstorev1.ObjectStore, bucket, key, content string) {
	t.Helper()
	// A body that is nothing but a reader, as it comes from the wire.
	require.NoError(t, s.PutObject(t.Context(), bucket, key, io.MultiReader(strings.NewReader(content))))
}

func get(t *testing.T, s objectstorev1.ObjectStore, bucket, key string) string {
	t.Helper()
	r, err := s.GetObject(t.Context(), bucket, key)
	require.NoError(t, err)
	content, err := io.ReadAll(r)
	require.NoError(t, err)
	require.NoError(t, r.Close())
	return string(content)
}

func beforeInit(t *testing.T, f Fixture) {
	s, bucket := f.Fresh(t), "bucket"
	_, err := s.ListObjects(t.Context(), bucket, "")
	require.ErrorContains(t, err, "before Init")
	require.ErrorContains(t, s.PutObject(t.Context(), bucket, "key", strings.NewReader("x")), "before Init")
	_, err = s.CreateSignedURL(t.Context(), bucket, "key", time.Minute)
	require.ErrorContains(t, err, "before Init")
}

func roundTrip(t *testing.T, f Fixture) {
	s, bucket := f.New(t)
	for _, content := range []string{"", "x", strings.Repeat("0123456789", 100_000)} {
		put(t, s, bucket, "dir/object", content)
		require.Equal(t, content, get(t, s, bucket, "dir/object"))
	}
}

func replace(t *testing.T, f Fixture) {
	s, bucket := f.New(t)
	put(t, s, bucket, "key", "a longer text")
	put(t, s, bucket, "key", "short")
	require.Equal(t, "short", get(t, s, bucket, "key"))
}

func exists(t *testing.T, f Fixture) {
	s, bucket := f.New(t)
	for _, want := range []bool{false, true, false} {
		got, err := s.ObjectExists(t.Context(), bucket, "backups/b/velero-backup.json")
		require.NoError(t, err)
		require.Equal(t, want, got)
		if want {
			require.NoError(t, s.DeleteObject(t.Context(), bucket, "backups/b/velero-backup.json"))
		} else {
			require.NoError(t, s.DeleteObject(t.Context(), bucket, "backups/b/velero-backup.json"), "deleting nothing is no error")
			put(t, s, bucket, "backups/b/velero-backup.json", "{}")
		}
	}
	directory, err := s.ObjectExists(t.Context(), bucket, "backups/b")
	require.NoError(t, err)
	require.False(t, directory, "a directory is no object")
}

func list(t *testing.T, f Fixture) {
	s, bucket := f.New(t)
	for _, key := range []string{"backups/b1/x", "backups/b1/deep/er/y", "backups/b10/x", "backups/file", "restores/r/x", "top"} {
		put(t, s, bucket, key, "x")
	}
	for prefix, want := range map[string][]string{
		"":            {"backups/", "restores/"},
		"backups/":    {"backups/b1/", "backups/b10/"},
		"backups/b1/": {"backups/b1/deep/"},
		"kopia/":      {},
	} {
		got, err := s.ListCommonPrefixes(t.Context(), bucket, prefix, "/")
		require.NoError(t, err)
		require.ElementsMatch(t, want, got, "below %q", prefix)
	}
	for prefix, want := range map[string][]string{
		"backups/b1/": {"backups/b1/x", "backups/b1/deep/er/y"},
		"backups/b1":  {"backups/b1/x", "backups/b1/deep/er/y", "backups/b10/x"},
		"to":          {"top"},
		"nowhere/":    {},
	} {
		got, err := s.ListObjects(t.Context(), bucket, prefix)
		require.NoError(t, err)
		require.ElementsMatch(t, want, got, "with %q", prefix)
	}
}

func listEmpty(t *testing.T, f Fixture) {
	s, bucket := f.New(t)
	for _, prefix := range []string{"", "backups/"} {
		prefixes, err := s.ListCommonPrefixes(t.Context(), bucket, prefix, "/")
		require.NoError(t, err)
		require.Empty(t, prefixes)
		keys, err := s.ListObjects(t.Context(), bucket, prefix)
		require.NoError(t, err)
		require.Empty(t, keys)
	}
}

func listMany(t *testing.T, f Fixture) {
	s, bucket := f.New(t)
	const many = 1005 // a page of S3 has 1000
	want := make([]string, 0, many)
	for i := range many {
		want = append(want, fmt.Sprintf("backups/b%d/velero-backup.json", i))
		put(t, s, bucket, want[i], "x")
	}
	keys, err := s.ListObjects(t.Context(), bucket, "backups/")
	require.NoError(t, err)
	require.ElementsMatch(t, want, keys)
	prefixes, err := s.ListCommonPrefixes(t.Context(), bucket, "backups/", "/")
	require.NoError(t, err)
	require.Len(t, prefixes, many)
}

func oddKeys(t *testing.T, f Fixture) {
	s, bucket := f.New(t)
	keys := []string{
		"a b/c d", "plus+plus", "per%20cent", "q?uest=ion&more", "hash#tag", "quote'\"quote", "ünï/cødé/日本", "dots..in.name",
		"colon:semi;comma,at@", "(paren)[bracket]{brace}", "tilde~caret^", "star*", "dollar$", "back`tick", "pipe|", strings.Repeat("n", 200),
	}
	for _, key := range keys {
		put(t, s, bucket, key, "content of "+key)
	}
	got, err := s.ListObjects(t.Context(), bucket, "")
	require.NoError(t, err)
	require.ElementsMatch(t, keys, got)
	for _, key := range keys {
		require.Equal(t, "content of "+key, get(t, s, bucket, key))
		url, err := s.CreateSignedURL(t.Context(), bucket, key, time.Minute)
		require.NoError(t, err)
		require.Equal(t, "content of "+key, string(f.Fetch(t, url)), key)
		require.NoError(t, s.DeleteObject(t.Context(), bucket, key))
	}
	got, err = s.ListObjects(t.Context(), bucket, "")
	require.NoError(t, err)
	require.Empty(t, got)
}

func missing(t *testing.T, f Fixture) {
	s, bucket := f.New(t)
	r, err := s.GetObject(t.Context(), bucket, "backups/none/none.tar.gz")
	if err == nil {
		_, err = io.ReadAll(r)
	}
	require.ErrorContains(t, err, "backups/none/none.tar.gz")
	require.ErrorContains(t, err, bucket)
	require.ErrorContains(t, err, "no such object")
}

// noise is n bytes that do not compress, the same each time.
func noise(n int64) io.Reader { return io.LimitReader(&noiseReader{}, n) }

type noiseReader struct {
	block [sha256.Size]byte
	rest  []byte
}

func (r *noiseReader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		r.block = sha256.Sum256(r.block[:])
		r.rest = r.block[:]
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

const largeSize = 20<<20 + 12345

func large(t *testing.T, f Fixture) {
	s, bucket := f.New(t)
	want, got := sha256.New(), sha256.New()
	require.NoError(t, s.PutObject(t.Context(), bucket, "large", io.TeeReader(noise(largeSize), want)))
	r, err := s.GetObject(t.Context(), bucket, "large")
	require.NoError(t, err)
	n, err := io.Copy(got, r)
	require.NoError(t, err)
	require.NoError(t, r.Close())
	require.EqualValues(t, largeSize, n)
	require.True(t, bytes.Equal(want.Sum(nil), got.Sum(nil)))
	require.Empty(t, f.Unfinished(t, bucket))
}

var errBody = errors.New("the body broke")

// sizes of what arrives before an upload breaks: nothing, less than a part of a multipart upload, several parts.
func sizes() []int64 { return []int64{0, 1000, largeSize} }

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func brokenBody(t *testing.T, f Fixture) {
	s, bucket := f.New(t)
	for _, size := range sizes() {
		err := s.PutObject(t.Context(), bucket, "backups/b/b.tar.gz", io.MultiReader(noise(size), failing{errBody}))
		require.ErrorIs(t, err, errBody)
		requireNothing(t, f, s, bucket)
	}
}

func requireNothing(t *testing.T, f Fixture, s objectstorev1.ObjectStore, bucket string) {
	t.Helper()
	keys, err := s.ListObjects(t.Context(), bucket, "")
	require.NoError(t, err)
	require.Empty(t, keys)
	require.Empty(t, f.Unfinished(t, bucket))
}

// waiting ends its reads when ctx ends, as an upload from the wire does, and says when it is reached.
type waiting struct {
	ctx     context.Context
	reached func()
}

func (w waiting) Read([]byte) (int, error) {
	w.reached()
	<-w.ctx.Done()
	return 0, w.ctx.Err()
}

func cancelled(t *testing.T, f Fixture) {
	s, bucket := f.New(t)
	for _, size := range sizes() {
		ctx, cancel := context.WithCancel(t.Context())
		err := s.PutObject(ctx, bucket, "backups/b/b.tar.gz", io.MultiReader(noise(size), waiting{ctx, cancel}))
		require.ErrorIs(t, err, context.Canceled)
		requireNothing(t, f, s, bucket)
	}
}

func brokenReplace(t *testing.T, f Fixture) {
	s, bucket := f.New(t)
	put(t, s, bucket, "key", "before")
	for _, size := range sizes() {
		require.Error(t, s.PutObject(t.Context(), bucket, "key", io.MultiReader(noise(size), failing{errBody})))
		require.Equal(t, "before", get(t, s, bucket, "key"))
	}
	require.Empty(t, f.Unfinished(t, bucket))
}

func signedURL(t *testing.T, f Fixture) {
	s, bucket := f.New(t)
	put(t, s, bucket, "prefix/backups/b/b-logs.gz", "the log")
	url, err := s.CreateSignedURL(t.Context(), bucket, "prefix/backups/b/b-logs.gz", 10*time.Minute)
	require.NoError(t, err)
	require.Equal(t, "the log", string(f.Fetch(t, url)))
}

func missingBucket(t *testing.T, f Fixture) {
	s, _ := f.New(t)
	_, err := s.ListCommonPrefixes(t.Context(), "no-such-bucket", "", "/")
	require.ErrorContains(t, err, `"no-such-bucket"`)
	require.ErrorContains(t, err, "create")
	err = s.PutObject(t.Context(), "no-such-bucket", "key", strings.NewReader("x"))
	require.ErrorContains(t, err, `"no-such-bucket"`)
	require.ErrorContains(t, err, "create")
}

func earlyClose(t *testing.T, f Fixture) {
	s, bucket := f.New(t)
	require.NoError(t, s.PutObject(t.Context(), bucket, "large", noise(1<<20)))
	r, err := s.GetObject(t.Context(), bucket, "large")
	require.NoError(t, err)
	_, err = io.ReadFull(r, make([]byte, 10))
	require.NoError(t, err)
	require.NoError(t, r.Close())
}
