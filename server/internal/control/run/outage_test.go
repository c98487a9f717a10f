package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/hostapi"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/calls"
	"github.com/cleat-dev/cleat/server/internal/kube/waits"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/objectstore"
)

// faulty is an object store with one object. Like a plugin made for Velero, it does not report why it fails.
type faulty struct {
	objectstore.Store
	content  string
	away     time.Time             // until then every call fails
	fail     func(calls int) error // the error of a call other than a listing; nil for none
	download func(calls int, content io.Reader) io.Reader

	calls int
	read  []string // what PutObject has read, by call
}

var errUnclear = versioning.NewPlugin("ObjectStore", "example.io/tape").Wrap(status.Error(codes.Unknown,
	"the tape is stuck"))

func (f *faulty) call() error {
	f.calls++
	if time.Now().Before(f.away) {
		return errUnclear
	}
	if f.fail == nil {
		return nil
	}
	return f.fail(f.calls)
}

func (f *faulty) ListCommonPrefixes(context.Context, string, string, string) ([]string, error) {
	if time.Now().Before(f.away) {
		return nil, errUnclear
	}
	return nil, nil
}

func (f *faulty) ObjectExists(context.Context, string, string) (bool, error) {
	return f.content != "", f.call()
}

func (f *faulty) DeleteObject(context.Context, string, string) error {
	deleted := f.content == ""
	f.content = ""
	if err := f.call(); err != nil || !deleted {
		return err
	}
	return errUnclear // as some object stores do
}

func (f *faulty) PutObject(_ context.Context, _, _ string, body io.Reader) error {
	content, err := io.ReadAll(body)
	f.read = append(f.read, string(content))
	if err != nil {
		return err
	}
	return f.call()
}

func (f *faulty) GetObject(context.Context, string, string) (io.ReadCloser, error) {
	if err := f.call(); err != nil {
		return nil, err
	}
	return io.NopCloser(f.download(f.calls, strings.NewReader(f.content))), nil
}

// Open implements Stores.
func (f *faulty) Open(context.Context, *velerov1.BackupStorageLocation) (*store.Store, error) {
	return store.New(f, "bucket", ""), nil
}

// patient returns the store with patience, and its log.
func patient(f *faulty, limit time.Duration) (patientStore, *bytes.Buffer) {
	log := new(bytes.Buffer)
	o := &outage{limit: limit, log: hclog.New(&hclog.LoggerOptions{Output: log, Level: hclog.Info})}
	o.ask = func(ctx context.Context) error {
		_, err := f.ListCommonPrefixes(ctx, "", "", "")
		return err
	}
	return patientStore{Store: f, outage: o}, log
}

func always(err error) func(int) error { return func(int) error { return err } }

func TestFailedCallsOfObjectStoresAreRepeated(t *testing.T) {
	t.Parallel()
	const limit = 5 * time.Minute
	of := func(code codes.Code) error {
		return versioning.NewPlugin("ObjectStore", "example.io/tape").Wrap(status.Error(code, "no"))
	}
	for name, test := range map[string]struct {
		away  time.Duration
		fail  func(int) error
		calls int // 0 for any number
		takes time.Duration
		want  string // in the error
		lines []string
	}{
		"it works": {calls: 1},
		"it is away for a minute": {away: time.Minute, takes: time.Minute,
			lines: []string{"[WARN]  the object store failed, trying again for up to 5m0s: error=",
				"[INFO]  the object store answers again: after="}},
		"it is away for too long": {away: time.Hour, takes: limit, calls: 1,
			want: "ObjectStore(example.io/tape): the tape is stuck; " +
				"the object store has not answered for 5m0s, see --store-outage-timeout",
			lines: []string{"[WARN]  the object store failed, trying again for up to 5m0s: error="}},
		"it answers, but one call fails twice": {calls: 3, fail: func(calls int) error {
			if calls <= 2 {
				return errUnclear
			}
			return nil
		}},
		"it answers, but one call always fails": {fail: always(errUnclear), calls: 1 + repeats, want: "the tape is stuck"},
		"its process always dies": {fail: always(&calls.DiedError{Plugin: "example.io/tape"}), calls: 1 +
			repeats, want: "died"},
		"it panics": {fail: always(of(codes.Aborted)), calls: 1 + repeats, want: "no"},
		"its SDK has no tries left": {fail: always(versioning.NewPlugin("ObjectStore", "example.io/tape").Wrap(status.Error(
			codes.Unknown, "failed to get rate limit token, retry quota exceeded, 4 available, 5 requested"))), takes: limit,
			want: "retry quota"},
		"it is silent":                   {fail: always(&calls.OverdueError{Plugin: "example.io/tape"}), takes: limit, want: "example.io/tape"},
		"it says that it is unavailable": {fail: always(of(codes.Unavailable)), takes: limit, want: "no"},
		"it does not find something":     {fail: always(of(codes.NotFound)), calls: 1, want: "no"},
		"it is given something invalid":  {fail: always(of(codes.InvalidArgument)), calls: 1, want: "no"},
		"there is something":             {fail: always(of(codes.AlreadyExists)), calls: 1, want: "no"},
		"it refuses":                     {fail: always(of(codes.PermissionDenied)), calls: 1, want: "no"},
		"it cannot do that":              {fail: always(of(codes.Unimplemented)), calls: 1, want: "no"},
		"it breaks its contract": {fail: always(fmt.Errorf("%w: lies", versioning.ErrInvalidReply)), calls: 1,
			want: "lies"},
		"the lease is lost": {fail: always(ErrLostLead), calls: 1, want: "lease"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				f := &faulty{content: "x", fail: test.fail, away: began.Add(test.away)}
				objects, log := patient(f, limit)
				exists, err := objects.ObjectExists(t.Context(), "bucket", "key")
				if test.want == "" {
					require.NoError(t, err)
					require.True(t, exists)
				} else {
					require.ErrorContains(t, err, test.want)
				}
				if test.calls > 0 {
					require.Equal(t, test.calls, f.calls)
				}
				require.GreaterOrEqual(t, time.Since(began), test.takes)
				require.Less(t, time.Since(began), test.takes+30*time.Second)
				lines := slices.DeleteFunc(strings.Split(log.String(), "\n"), func(line string) bool { return line == "" })
				require.Len(t, lines, len(test.lines))
				for i, line := range test.lines {
					require.Contains(t, lines[i], line)
				}
			})
		})
	}
}

// After an outage that was too long, later calls do not wait, until the store answers.
func TestOutageEndsForAllCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &faulty{away: time.Now().Add(time.Hour)}
		objects, log := patient(f, time.Minute)
		for range 10 {
			require.ErrorIs(t, objects.PutObject(t.Context(), "bucket", "key", strings.NewReader("x")), errUnclear)
		}
		require.Less(t, time.Since(f.away.Add(-time.Hour)), 2*time.Minute)
		time.Sleep(time.Hour)
		require.NoError(t, objects.PutObject(t.Context(), "bucket", "key", strings.NewReader("x")))
		require.Equal(t, 1, strings.Count(log.String(), "[WARN]"))
		require.Equal(t, 1, strings.Count(log.String(), "[INFO]"))
	})
}

func TestRunThatEndsDoesNotWaitForAnObjectStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		objects, _ := patient(&faulty{away: began.Add(time.Hour)}, time.Hour)
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(ErrDeleted) })
		_, err := objects.ListCommonPrefixes(ctx, "bucket", "prefix", "/")
		require.ErrorIs(t, err, ErrDeleted)
		require.Equal(t, time.Minute, time.Since(began))
	})
}

func TestUploadIsRepeatedFromItsStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &faulty{away: time.Now().Add(time.Minute)}
		objects, _ := patient(f, time.Hour)
		require.NoError(t, objects.PutObject(t.Context(), "bucket", "key", strings.NewReader("whole")))
		require.Greater(t, len(f.read), 1)
		require.Equal(t, []string{"whole"}, slices.Compact(f.read))

		f = &faulty{fail: always(errUnclear)}
		objects, _ = patient(f, time.Hour)
		require.ErrorIs(t, objects.PutObject(t.Context(), "bucket", "key", strings.NewReader("whole")), errUnclear)
		require.Len(t, f.read, 1+repeats)
	})
}

// twice is an object store that reads what it stores a second time, as one that writes no key twice may have to.
type twice struct{ *faulty }

func (s twice) PutObject(ctx context.Context, bucket, key string, body io.Reader) error {
	if err := s.faulty.PutObject(ctx, bucket, key, body); err != nil {
		return err
	}
	again, ok := body.(io.Seeker)
	if !ok {
		return errors.New("the body cannot be read again")
	}
	if _, err := again.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return s.faulty.PutObject(ctx, bucket, key, body)
}

func TestObjectStoreCanReadAnUploadAgain(t *testing.T) {
	t.Parallel()
	f := &faulty{}
	objects, _ := patient(f, time.Hour)
	objects.Store = twice{f}
	require.NoError(t, objects.PutObject(t.Context(), "bucket", "key", strings.NewReader("whole")))
	require.Equal(t, []string{"whole", "whole"}, f.read)
}

// growing is a body of which each attempt can read more than the previous one.
type growing struct {
	io.Reader
	size int
}

func (g *growing) Seek(int64, int) (int64, error) {
	g.size++
	g.Reader = strings.NewReader(strings.Repeat("x", g.size))
	return 0, nil
}

func TestUploadThatGetsFurtherIsNoRepetition(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &faulty{fail: func(calls int) error {
			if calls < 5*repeats {
				return errUnclear
			}
			return nil
		}}
		objects, _ := patient(f, time.Hour)
		require.NoError(t, objects.PutObject(t.Context(), "bucket", "key", &growing{}))
		require.Len(t, f.read, 5*repeats)
	})
}

func TestUploadIsNotRepeatedIfItsSourceFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("the disk is broken")
	f := &faulty{}
	objects, _ := patient(f, time.Hour)
	body := struct {
		io.Reader
		io.Seeker
	}{iotest.ErrReader(broken), strings.NewReader("")}
	require.ErrorIs(t, objects.PutObject(t.Context(), "bucket", "key", body), broken)
	require.Len(t, f.read, 1)
}

func TestDeletionMayHaveTakenEffect(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &faulty{content: "x", fail: func(calls int) error {
			if calls == 1 { // the object is deleted already
				return errUnclear
			}
			return nil
		}}
		objects, _ := patient(f, time.Hour)
		require.NoError(t, objects.DeleteObject(t.Context(), "bucket", "key"))
	})
}

func TestDownloadGoesOnWhereItBroke(t *testing.T) {
	t.Parallel()
	content := strings.Repeat("0123456789", 100)
	breaks := func(calls int, content io.Reader) io.Reader { // after calls*100 bytes
		return io.MultiReader(io.LimitReader(content, int64(calls*100)), iotest.ErrReader(errUnclear))
	}
	synctest.Test(t, func(t *testing.T) {
		f := &faulty{content: content, download: func(calls int, content io.Reader) io.Reader {
			if calls > 8 {
				return content
			}
			return breaks(calls, content)
		}}
		objects, _ := patient(f, time.Hour)
		body, err := objects.GetObject(t.Context(), "bucket", "key")
		require.NoError(t, err)
		got, err := io.ReadAll(body)
		require.NoError(t, err)
		require.Equal(t, content, string(got))
		require.NoError(t, body.Close())

		f = &faulty{content: content, download: func(calls int, content io.Reader) io.Reader {
			if calls > 1 {
				return strings.NewReader(strings.Repeat("other", 100))
			}
			return breaks(calls, content)
		}}
		objects, _ = patient(f, time.Hour)
		body, err = objects.GetObject(t.Context(), "bucket", "key")
		require.NoError(t, err)
		_, err = io.ReadAll(body)
		require.ErrorContains(t, err, `key in bucket "bucket" has changed while it was read`)
	})
}

// unopened fails to open for some time.
type unopened struct {
	*faulty
	err   error
	until time.Time
}

func (u unopened) Open(ctx context.Context, location *velerov1.BackupStorageLocation) (*store.Store, error) {
	if time.Now().Before(u.until) {
		return nil, u.err
	}
	return u.faulty.Open(ctx, location)
}

func TestOpeningAnObjectStoreIsRepeated(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err   error
		limit time.Duration
		takes time.Duration
		opens bool
	}{
		"its plugin does not start":          {errUnclear, 5 * time.Minute, time.Minute, true},
		"its plugin does not start for long": {errUnclear, 30 * time.Second, 30 * time.Second, false},
		"the location is wrong":              {errors.New("spec.provider is empty"), 5 * time.Minute, 0, false},
		"nothing is repeated":                {errUnclear, 0, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				stores := PatientStores{Stores: unopened{&faulty{}, test.err, began.Add(time.Minute)}, For: test.limit,
					Log: hclog.NewNullLogger()}
				opened, err := stores.Open(t.Context(), &velerov1.BackupStorageLocation{})
				require.GreaterOrEqual(t, time.Since(began), test.takes)
				require.Less(t, time.Since(began), test.takes+30*time.Second)
				if !test.opens {
					require.ErrorIs(t, err, test.err)
					return
				}
				require.NoError(t, err)
				require.NoError(t, opened.Validate(t.Context()))
			})
		})
	}
}

// A run repeats failed calls; the validation of its location does not.
func TestOnlyRunsArePatient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		f := &faulty{away: began.Add(time.Minute)}
		opened, err := f.Open(t.Context(), &velerov1.BackupStorageLocation{})
		require.NoError(t, err)
		require.ErrorIs(t, opened.Validate(t.Context()), errUnclear)
		require.Zero(t, time.Since(began))
		opened, err = PatientStores{Stores: f, For: time.Hour, Log: hclog.NewNullLogger()}.Open(t.Context(),
			&velerov1.BackupStorageLocation{})
		require.NoError(t, err)
		_, _, err = opened.ListBackups(t.Context())
		require.NoError(t, err)
		require.GreaterOrEqual(t, time.Since(began), time.Minute)
	})
}

// ranged is an object store that sends ranges, and cuts each body after some bytes.
type ranged struct {
	*faulty
	cut   int
	asked []int64 // where each body begins
}

func (r *ranged) GetObject(ctx context.Context, _, _ string) (io.ReadCloser, error) {
	part := &hostapi.Part{Size: int64(len(r.content))}
	length := part.Size
	asked := hostapi.RangeOf(ctx)
	if asked != nil {
		part.Offset, length = asked.In(part.Size)
	}
	r.asked = append(r.asked, part.Offset)
	rest := r.content[part.Offset : part.Offset+length]
	body := io.Reader(strings.NewReader(rest))
	if len(rest) > r.cut {
		body = io.MultiReader(strings.NewReader(rest[:r.cut]), iotest.ErrReader(errUnclear))
	}
	if asked == nil {
		return io.NopCloser(body), nil
	}
	return partBody{body, part}, nil
}

type partBody struct {
	io.Reader
	part *hostapi.Part
}

func (partBody) Close() error          { return nil }
func (b partBody) Part() *hostapi.Part { return b.part }

// Each body is cut, so that the object can only be read by asking for the rest.
func TestDownloadAsksForTheRest(t *testing.T) {
	t.Parallel()
	content := strings.Repeat("0123456789abcdef", 10_000)
	for name, test := range map[string]struct {
		asked *hostapi.Range
		want  string
	}{
		"of the object":  {nil, content},
		"of a range":     {&hostapi.Range{Offset: 1001, Length: 50_001}, content[1001:51_002]},
		"of the last kB": {&hostapi.Range{Offset: -9000}, content[len(content)-9000:]},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := &ranged{faulty: &faulty{content: content}, cut: 4000}
				objects, _ := patient(r.faulty, time.Hour)
				objects.Store = r
				ctx := t.Context()
				if test.asked != nil {
					ctx = hostapi.WithRange(ctx, *test.asked)
				}
				body, err := objects.GetObject(ctx, "bucket", "key")
				require.NoError(t, err)
				got, err := io.ReadAll(body)
				require.NoError(t, err)
				require.Equal(t, test.want, string(got))
				require.Greater(t, len(r.asked), len(test.want)/r.cut)
				require.Greater(t, r.asked[len(r.asked)-1], r.asked[0], "no body begins at the start")
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		r := &ranged{faulty: &faulty{content: content}, cut: 4000}
		objects, _ := patient(r.faulty, time.Hour)
		objects.Store = r
		body, err := objects.GetObject(t.Context(), "bucket", "key")
		require.NoError(t, err)
		_, err = io.CopyN(io.Discard, body, 3000)
		require.NoError(t, err)
		r.content = strings.Repeat("another one.....", 10_000)
		_, err = io.ReadAll(body)
		require.ErrorContains(t, err, "has changed while it was read")
	})
}

// A body that is cut at the same byte each time, without ranges, is tried for as long as an outage may last.
func TestDownloadThatIsCutWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		f := &faulty{content: strings.Repeat("x", 1000), download: func(_ int, content io.Reader) io.Reader {
			if time.Since(began) > 4*time.Minute {
				return content
			}
			return io.MultiReader(io.LimitReader(content, 100), iotest.ErrReader(errUnclear))
		}}
		objects, _ := patient(f, 5*time.Minute)
		body, err := objects.GetObject(t.Context(), "bucket", "key")
		require.NoError(t, err)
		got, err := io.ReadAll(body)
		require.NoError(t, err)
		require.Len(t, got, 1000)
	})
}

// The page of a proxy is not what was stored. If it stays, it is.
func TestForeignDocumentIsReadAgain(t *testing.T) {
	t.Parallel()
	const page = "\n<html><body>Bad gateway</body></html>"
	for name, test := range map[string]struct {
		key   string
		pages time.Duration
		want  string
	}{
		"for a moment":    {"b.tar.gz", 10 * time.Second, "stored"},
		"for good":        {"velero-backup.json", time.Hour, page},
		"in another file": {"graph.svg", 0, "stored"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				f := &faulty{content: "stored", download: func(_ int, content io.Reader) io.Reader {
					if time.Since(began) < test.pages {
						return strings.NewReader(page)
					}
					return content
				}}
				objects, _ := patient(f, 5*time.Minute)
				body, err := objects.GetObject(t.Context(), "bucket", test.key)
				require.NoError(t, err)
				got, err := io.ReadAll(body)
				require.NoError(t, err)
				require.Equal(t, test.want, string(got))
				require.Less(t, time.Since(began), time.Minute)
			})
		})
	}
}

// stuck never answers.
type stuck struct{ objectstore.Store }

func (stuck) ObjectExists(ctx context.Context, _, _ string) (bool, error) {
	<-ctx.Done()
	return false, context.Cause(ctx)
}

func (stuck) PutObject(ctx context.Context, _, _ string, body io.Reader) error {
	if _, err := io.ReadFull(body, make([]byte, 1)); err != nil {
		return err
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// A call that is not answered is a wait. An object store that waits for its caller is not.
func TestSilenceIsAWait(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(context.Context, patientStore) error{
		"read": func(ctx context.Context, objects patientStore) error {
			_, err := objects.ObjectExists(ctx, "bucket", "key")
			return err
		},
		"write": func(ctx context.Context, objects patientStore) error {
			return objects.PutObject(ctx, "bucket", "key", strings.NewReader("whole"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				list := waits.New()
				ctx, cancel := context.WithCancel(waits.With(t.Context(), list))
				objects, _ := patient(&faulty{}, time.Hour)
				objects.outage.what, objects.Store = "the object store of x", stuck{}
				ended := make(chan error, 1)
				go func() { ended <- call(ctx, objects) }()
				time.Sleep(10 * time.Second)
				shown, _ := list.Longest()
				require.Len(t, shown, 1)
				require.Equal(t, "the object store of x to answer", shown[0].For)
				cancel()
				require.ErrorIs(t, <-ended, context.Canceled)
				synctest.Wait()
				shown, _ = list.Longest()
				require.Empty(t, shown)
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		list := waits.New()
		objects, _ := patient(&faulty{}, time.Hour)
		archive, writer := io.Pipe()
		ended := make(chan error, 1)
		go func() {
			ended <- objects.PutObject(waits.With(t.Context(), list), "bucket", "key", struct {
				io.Reader
				io.Seeker
			}{archive, strings.NewReader("")})
		}()
		time.Sleep(time.Minute)
		shown, _ := list.Longest()
		require.Empty(t, shown)
		require.NoError(t, writer.Close())
		require.NoError(t, <-ended)
	})
}

// What a queue repeats does not wait for an object store that is away, and goes on with a read that is cut.
func TestEndOfARunLeavesAnOutageToItsQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		f := &faulty{away: began.Add(time.Minute), content: "x"}
		noted := 0
		opened, err := PatientStores{Stores: f, For: time.Minute, Brief: true, Log: hclog.NewNullLogger(),
			Note: func(context.Context, error) { noted++ }}.Open(t.Context(), &velerov1.BackupStorageLocation{})
		require.NoError(t, err)
		_, err = opened.BackupExists(t.Context(), "b")
		require.ErrorIs(t, err, errUnclear)
		require.Zero(t, time.Since(began))
		require.Zero(t, noted, "the controller notes it")
		time.Sleep(time.Minute)
		began = time.Now()
		f.download = func(_ int, content io.Reader) io.Reader {
			if time.Since(began) > 30*time.Second {
				return content
			}
			return iotest.ErrReader(io.ErrUnexpectedEOF)
		}
		stored, err := opened.BackupMetadata(t.Context(), "b")
		require.NoError(t, err)
		require.Equal(t, "x", string(stored))
		require.Equal(t, 1, noted)
	})
}
