package console

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// thing is something that is open until it is closed.
type thing struct{ open *atomic.Int64 }

func (t *thing) Close() error {
	t.open.Add(-1)
	return nil
}

// holder returns a look of a new viewer, what ends the viewer, and a function that opens a thing.
func holder(t *testing.T, s *shelf) (l *Look, end func(), open func(context.Context) (*thing, error),
	opened *atomic.Int64,
) {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	opened = &atomic.Int64{}
	l = &Look{Viewer: &Viewer{ctx: ctx, shelf: s}, Request: httptest.NewRequest("GET", "/", nil)}
	return l, end, func(context.Context) (*thing, error) {
		opened.Add(1)
		return &thing{opened}, nil
	}, opened
}

// hold holds a thing for the time of a look.
func hold(t *testing.T, l *Look, key, version string, open func(context.Context) (*thing, error)) {
	t.Helper()
	value, release, err := Hold(l, key, version, open)
	require.NoError(t, err)
	require.Positive(t, value.open.Load())
	release()
	release()
}

func TestHold(t *testing.T) {
	t.Parallel()
	s := &shelf{}
	l, end, open, opened := holder(t, s)
	hold(t, l, "a", "1", open)
	hold(t, l, "a", "1", func(context.Context) (*thing, error) { panic("it is open") })
	require.EqualValues(t, 1, opened.Load())

	_, release, err := Hold(l, "a", "1", open)
	require.NoError(t, err)
	hold(t, l, "a", "2", open)
	require.EqualValues(t, 2, opened.Load(), "the old version is in use")
	release()
	require.EqualValues(t, 1, opened.Load())

	for i := range 10 {
		hold(t, l, fmt.Sprint(i), "1", open)
	}
	require.EqualValues(t, mostHeldByOne, opened.Load())
	Drop(l, "9")
	require.EqualValues(t, mostHeldByOne-1, opened.Load())

	// what pages use makes no room
	var releases []func()
	for i := range mostHeldByOne {
		_, release, err := Hold(l, fmt.Sprint("used ", i), "1", open)
		require.NoError(t, err)
		releases = append(releases, release)
	}
	_, _, err = Hold(l, "one more", "1", open)
	require.ErrorContains(t, err, "close some of them")
	for _, release := range releases {
		release()
	}
	hold(t, l, "one more", "1", open)

	for _, h := range s.all {
		h.used = time.Now().Add(-2 * feedIdle)
	}
	woken := make(chan struct{}, 1)
	stop := s.all[0].listen(woken)
	s.sweep()
	require.EqualValues(t, 1, opened.Load(), "an open page listens to it")
	stop()
	s.sweep()
	require.Zero(t, opened.Load())

	hold(t, l, "a", "1", open)
	_, release, err = Hold(l, "b", "1", open)
	require.NoError(t, err)
	end()
	require.Eventually(t, func() bool { return opened.Load() == 1 }, time.Minute, time.Millisecond)
	release()
	require.Zero(t, opened.Load())
}

// All viewers together have a limit too, and one does not see what another has open.
func TestHoldOfMany(t *testing.T) {
	t.Parallel()
	s := &shelf{}
	var open []*atomic.Int64
	for range 20 {
		l, end, opens, opened := holder(t, s)
		t.Cleanup(end)
		open = append(open, opened)
		for i := range 3 {
			hold(t, l, fmt.Sprint(i), "1", opens)
		}
	}
	all := int64(0)
	for _, opened := range open {
		all += opened.Load()
	}
	require.EqualValues(t, mostHeld, all)
	require.Zero(t, open[0].Load(), "the oldest make room")
	require.EqualValues(t, 3, open[19].Load())
}

func TestHoldWhileItOpens(t *testing.T) {
	t.Parallel()
	s := &shelf{}
	l, end, open, opened := holder(t, s)
	t.Cleanup(end)
	goOn := make(chan struct{})
	slow := func(ctx context.Context) (*thing, error) {
		<-goOn
		return open(ctx)
	}
	_, _, err := Hold(l, "slow", "1", slow)
	require.ErrorIs(t, err, ErrOpening)
	woken := make(chan struct{}, 1)
	require.Len(t, l.sources, 1)
	t.Cleanup(l.sources[0].listen(woken))
	close(goOn)
	<-woken
	hold(t, l, "slow", "1", slow)

	failed := errors.New("damaged")
	times := 0
	fail := func(context.Context) (*thing, error) {
		times++
		return nil, failed
	}
	for range 3 {
		_, _, err = Hold(l, "bad", "1", fail)
		require.ErrorIs(t, err, failed)
	}
	require.Equal(t, 1, times)
	s.all[1].used = time.Now().Add(-2 * openAgain)
	_, _, err = Hold(l, "bad", "1", fail)
	require.ErrorIs(t, err, failed)
	require.Equal(t, 2, times)

	// what is dropped while it opens is closed
	goOn = make(chan struct{})
	_, _, err = Hold(l, "dropped", "1", slow)
	require.ErrorIs(t, err, ErrOpening)
	before := opened.Load()
	dropped := s.all[len(s.all)-1]
	Drop(l, "dropped")
	close(goOn)
	<-dropped.opened
	require.Eventually(t, func() bool { return opened.Load() == before }, time.Minute, time.Millisecond)
}

// changer is a thing that tells of its changes.
type changer struct {
	thing
	changed func()
}

// OnChange implements Changer.
func (c *changer) OnChange(changed func()) { c.changed = changed }

// TestHoldAChanger wakes an open page.
func TestHoldAChanger(t *testing.T) {
	t.Parallel()
	l, end, _, opened := holder(t, &shelf{})
	defer end()
	value, release, err := Hold(l, "a", "1", func(context.Context) (*changer, error) {
		opened.Add(1)
		return &changer{thing: thing{opened}}, nil
	})
	require.NoError(t, err)
	defer release()
	woken := make(chan struct{}, 1)
	defer l.sources[0].listen(woken)()
	for len(woken) > 0 { // it was opened
		<-woken
	}
	value.changed()
	select {
	case <-woken:
	case <-time.After(10 * time.Second):
		require.Fail(t, "the page was not woken")
	}
}

// TestKeep keeps something until nobody has looked for a while.
func TestKeep(t *testing.T) {
	t.Parallel()
	l, end, _, _ := holder(t, &shelf{})
	defer end()
	first := Keep(l, "a", func() *int { return new(1) })
	require.Same(t, first, Keep(l, "a", func() *int { return new(2) }))
	l.sweep()
	require.Same(t, first, Keep(l, "a", func() *int { return new(3) }))
	l.memory["a"].used = time.Now().Add(-2 * feedIdle)
	l.sweep()
	require.Equal(t, 4, *Keep(l, "a", func() *int { return new(4) }))
}
