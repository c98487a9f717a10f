package kopia

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/cleat-dev/cleat/framework"
	dmv1 "github.com/cleat-dev/cleat/framework/datamover/v1"
	"github.com/cleat-dev/cleat/plugins/internal/warnings"
	"github.com/cleat-dev/cleat/plugins/kopia/internal/repository"
	"github.com/cleat-dev/cleat/plugins/kopia/internal/storage"
)

// session is one call of the mover on a repository.
type session struct {
	*warnings.List

	mover    *mover
	of       dmv1.Repository
	place    *place
	cacheMB  int
	tell     func(dmv1.Progress)
	stopTick func()

	*opened      // nil until it is open
	worked  bool // the call, so that the repository is kept open

	mu       sync.Mutex
	progress func(*dmv1.Progress) // sets the numbers of now; nil for none
	activity string
	repeated string                  // why requests to the storage are repeated; "" if they are not
	lost     context.CancelCauseFunc // is called when the storage does not answer; nil for none
}

// Repeating implements storage.Watcher.
func (s *session) Repeating(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.repeated = why
}

// GaveUp implements storage.Watcher.
func (s *session) GaveUp(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost != nil && isAway(err) {
		s.lost(err)
	}
}

// untilLost returns a context that ends, with the error as its cause, when a request was repeated in vain because the
// storage does not answer.
func (s *session) untilLost(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = cancel
	return ctx, cancel
}

// tick is how often the progress is reported.
const tick = 500 * time.Millisecond

// start begins a call. It does not access the repository.
func (m *mover) start(ctx context.Context, r dmv1.Repository, report func(dmv1.Progress)) (*session, error) {
	place, err := newPlace(ctx, r)
	if err != nil {
		return nil, err
	}
	s := &session{
		List: warnings.New(r.Password), mover: m, of: r, place: place, cacheMB: m.config.CacheLimitMB, tell: report,
	}
	s.report("opening the repository")
	done := make(chan struct{})
	var ticking sync.WaitGroup
	ticking.Go(func() {
		ticker := time.NewTicker(tick)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				s.beat()
			}
		}
	})
	s.stopTick = func() {
		close(done)
		ticking.Wait()
	}
	return s, nil
}

// open begins a call on a repository that must exist.
func (m *mover) open(ctx context.Context, r dmv1.Repository, report func(dmv1.Progress)) (*session, error) {
	s, err := m.start(ctx, r, report)
	if err != nil {
		return nil, err
	}
	st, state, err := s.look(ctx, false)
	if err == nil {
		err = s.existing(ctx, st, state)
	}
	if err != nil {
		s.end(ctx)
		return nil, s.explain(ctx, err)
	}
	return s, nil
}

// look returns the storage of the repository and what is in it. The caller closes the storage.
func (s *session) look(ctx context.Context, create bool) (*storage.Counted, repository.State, error) {
	if err := s.place.reach(ctx); err != nil {
		return nil, repository.Nothing, s.away(err)
	}
	found, err := s.place.open(ctx, create)
	if err != nil {
		return nil, repository.Nothing, err
	}
	st := storage.Count(found)
	st.Watch(s)
	state, err := repository.Look(ctx, st)
	if err == nil && state == repository.Nothing && s.place.foreign != nil {
		var foreign bool
		if foreign, err = s.place.foreign(); foreign {
			state = repository.Foreign
		}
	}
	if err != nil {
		_ = st.Close(context.WithoutCancel(ctx)) // nothing was written
		return nil, state, err
	}
	return st, state, nil
}

// existing opens the repository in a storage.
func (s *session) existing(ctx context.Context, st *storage.Counted, state repository.State) error {
	switch state {
	case repository.Nothing:
		_ = st.Close(ctx) // nothing was written
		return framework.NotFound("there is no repository of kopia at %s", s.of)
	case repository.Foreign:
		_ = st.Close(ctx)
		return framework.Invalid("there are files at %s, but no repository of kopia", s.of)
	}
	return s.use(ctx, st)
}

// use opens the repository, which exists, unless it is open.
func (s *session) use(ctx context.Context, st *storage.Counted) error {
	key, err := keyOf(ctx, s.of, s.cacheMB, st)
	if err != nil {
		return errors.Join(err, st.Close(context.WithoutCancel(ctx)))
	}
	if s.opened = s.mover.kept.take(ctx, key); s.opened != nil {
		s.counted.Watch(s)
		s.report("")
		return st.Close(ctx) // the open repository has its own
	}
	options := repository.Options{
		Password: s.password(), ReadOnly: s.of.ReadOnly, CacheLimit: int64(s.cacheMB) << 20,
		UploadLimit: bytesOf(s.mover.config.UploadLimit), DownloadLimit: bytesOf(s.mover.config.DownloadLimit),
	}
	if s.place.remote { // otherwise the cache would be a copy of what is as near
		sum := sha256.Sum256([]byte(s.place.url))
		options.Cache = filepath.Join(s.mover.cache, hex.EncodeToString(sum[:8]))
		if err := os.MkdirAll(options.Cache, 0o700); err != nil {
			return errors.Join(err, st.Close(context.WithoutCancel(ctx)))
		}
	}
	s.opened, err = open(ctx, st, key, options)
	s.report("")
	return err
}

// password returns the password as Velero uses it.
func (s *session) password() string { return strings.TrimSpace(string(s.of.Password)) }

// end ends the call.
func (s *session) end(ctx context.Context) {
	s.stopTick()
	if s.opened == nil {
		return
	}
	s.counted.Watch(nil)
	if s.worked && ctx.Err() == nil && s.Settle(ctx) {
		debug.FreeOSMemory() // the host does not keep a process that holds much memory
		s.mover.kept.put(ctx, s.opened)
		return
	}
	if err := s.Close(ctx); err != nil {
		framework.Log(ctx).Warn("could not close the repository", "repository", s.of.String(), "error", s.Clean(err.Error()))
	}
}

// done returns how the call ends: with an error that explains what has failed, or without one.
func (s *session) done(ctx context.Context, err error) error {
	s.worked = err == nil
	return s.explain(ctx, err)
}

// follow has the numbers of the progress set by a function from now on.
func (s *session) follow(progress func(*dmv1.Progress)) {
	s.mu.Lock()
	s.progress = progress
	s.mu.Unlock()
	s.beat()
}

// report tells the host what happens now.
func (s *session) report(activity string) {
	s.mu.Lock()
	s.activity = activity
	s.mu.Unlock()
	s.beat()
}

// beat tells the host how far the call is.
func (s *session) beat() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := dmv1.Progress{Activity: s.activity}
	if s.repeated != "" {
		now.Activity = s.Clean(dmv1.Waiting + " for the storage: " + s.repeated)
	}
	if s.progress != nil {
		s.progress(&now)
	}
	s.tell(now)
}
