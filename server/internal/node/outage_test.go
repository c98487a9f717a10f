package node

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/node/hostpath"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/datamover"
)

// flaky is a mover with one function for each call, the only mover, and the only repository.
type flaky struct {
	datamover.Mover
	Repositories
	calls []func(report func(datamover.Progress)) error
	again []bool // of the calls so far
}

func (f *flaky) Find(string, hostpath.Volume) (datamover.Mover, error) { return f, nil }

func (f *flaky) Create(
	context.Context, datamover.Mover, string, string, bool,
) (datamover.Repository, string, error) {
	return datamover.Repository{}, "", nil
}

func (f *flaky) Backup(
	_ context.Context, b datamover.Backup, report func(datamover.Progress),
) (datamover.Snapshot, error) {
	call := f.calls[min(len(f.again), len(f.calls)-1)] // the last one is repeated
	f.again = append(f.again, b.Again)
	return datamover.Snapshot{SnapshotID: "s"}, call(report)
}

// said records what a load says.
type said struct {
	now   string
	waits []string
	done  int64
}

func (s *said) Report(done, _ int64) { s.done = done }

func (s *said) Wait(why string) {
	s.now = why
	if why != "" {
		s.waits = append(s.waits, why)
	}
}

// away is how a call fails that has moved some bytes.
func away(moved ...int64) func(func(datamover.Progress)) error {
	return func(report func(datamover.Progress)) error {
		for _, done := range moved {
			time.Sleep(time.Second)
			report(datamover.Progress{DoneBytes: done})
		}
		return fmt.Errorf("%w: connection refused", versioning.ErrUnavailable)
	}
}

func succeeds(report func(datamover.Progress)) error {
	report(datamover.Progress{DoneBytes: 1})
	return nil
}

// patiently has a load moved whose storage may be away for a minute, and returns how long that took.
func patiently(ctx context.Context, f *flaky, s *said) (time.Duration, error) {
	a := &Agent{Movers: f, Repositories: f, StoreOutage: time.Minute, Now: time.Now, Log: hclog.NewNullLogger()}
	began := time.Now()
	_, err := a.callPatiently(ctx, newLoad(podVolumeBackups(), &velerov1.PodVolumeBackup{}), hostpath.Volume{}, job{}, s)
	return time.Since(began), err
}

func TestLoadsWaitForTheirStorage(t *testing.T) {
	t.Parallel()
	type calls = []func(func(datamover.Progress)) error
	bounded := func(most time.Duration) func(*testing.T, time.Duration, error) {
		return func(t *testing.T, took time.Duration, err error) {
			require.ErrorIs(t, err, versioning.ErrUnavailable)
			require.ErrorContains(t, err, "has not answered for 1m0s, see --store-outage-timeout")
			require.GreaterOrEqual(t, took, time.Minute)
			require.LessOrEqual(t, took, most)
		}
	}
	fine := func(t *testing.T, _ time.Duration, err error) { require.NoError(t, err) }
	var often calls // half a minute each, and each call gets further
	for moved := range int64(10) {
		for range 14 {
			often = append(often, away())
		}
		often = append(often, away(moved+1))
	}
	var anew calls // half a minute each, and each call starts anew
	for range 3 {
		anew = append(anew, away(100, 200))
		for range 14 {
			anew = append(anew, away())
		}
	}
	for name, of := range map[string]struct {
		calls calls
		ends  func(*testing.T, time.Duration, error)
	}{
		"for a moment":                        {calls{away(5), away(), away(), succeeds}, fine},
		"for too long":                        {calls{away()}, bounded(62 * time.Second)},
		"often, and more is moved each time":  {append(often, succeeds), fine},
		"often, and nothing more is moved":    {append(anew, away()), bounded(3 * time.Minute)},
		"for ever after some bytes each time": {calls{away(1, 2, 3)}, bounded(3 * time.Minute)},
		"long after bytes that were moved before": {calls{away(100), func(report func(datamover.Progress)) error {
			for done := range int64(90) {
				report(datamover.Progress{DoneBytes: done + 1})
				time.Sleep(time.Hour)
			}
			return away()(report)
		}, succeeds}, fine},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f, s := &flaky{calls: of.calls}, &said{}
				took, err := patiently(t.Context(), f, s)
				of.ends(t, took, err)
				require.False(t, f.again[0])
				require.NotContains(t, f.again[1:], false)
				for _, why := range s.waits {
					require.Regexp(t, "^waits for the storage, since 2000-.*: .*connection refused", why)
				}
				if err == nil {
					require.Empty(t, s.now, "what is moved does not wait")
				}
			})
		})
	}
}

func TestLoadsDoNotWaitForAnythingElse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, s := &flaky{calls: []func(func(datamover.Progress)) error{func(func(datamover.Progress)) error {
			return errors.New("volume: input/output error")
		}}}, &said{}
		took, err := patiently(t.Context(), f, s)
		require.EqualError(t, err, "volume: input/output error")
		require.Zero(t, took)
		require.Len(t, f.again, 1)
		require.Empty(t, s.waits)

		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(5*time.Second, cancel)
		f = &flaky{calls: []func(func(datamover.Progress)) error{away()}}
		took, err = patiently(ctx, f, s)
		require.ErrorIs(t, err, versioning.ErrUnavailable)
		require.Equal(t, 5*time.Second, took)
	})
}

// TestLoadsSayWhatTheirMoverWaitsFor has a mover that repeats a request itself.
func TestLoadsSayWhatTheirMoverWaitsFor(t *testing.T) {
	t.Parallel()
	s := &said{}
	p := &endurance{now: time.Now, to: s}
	p.report(datamover.Progress{Activity: "opening the repository"})
	require.Empty(t, s.now)
	p.report(datamover.Progress{DoneBytes: 5, Activity: "waiting for the storage: reset"})
	require.Equal(t, "waiting for the storage: reset", s.now)
	p.report(datamover.Progress{DoneBytes: 5, Activity: "writing to the disk"})
	require.Empty(t, s.now)
	require.Equal(t, int64(5), s.done)
	p.report(datamover.Progress{DoneBytes: 5, Activity: "waiting for the storage: reset"})
	p.fail()
	s.Wait("waits for the storage, since noon")
	p.report(datamover.Progress{Activity: "opening the repository"})
	require.Equal(t, "waits for the storage, since noon", s.now, "until something is moved")
	p.report(datamover.Progress{DoneBytes: 1})
	require.Empty(t, s.now)
}
