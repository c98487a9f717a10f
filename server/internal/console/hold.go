package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

const (
	// mostHeld and mostHeldByOne are how many things all viewers, and one of them, may have open.
	mostHeld, mostHeldByOne = 32, 4
	// openWithin is the longest time for opening.
	openWithin = 10 * time.Minute
	// openAgain is the time after which something that could not be opened is opened again.
	openAgain = 10 * time.Second
)

// ErrOpening is the error of something that is still being opened.
var ErrOpening = errors.New("it is still being opened")

// held is something that a viewer has open, such as a file, from the first look at it until nobody has looked for a
// while.
type held struct {
	signal
	of           *Viewer
	key, version string
	stop         func()
	opened       chan struct{} // closed after opening, or its failure

	// The others are guarded by the mutex of the shelf.
	value io.Closer // nil until it is open
	err   error     // why it could not be opened
	users int       // looks that use it now
	used  time.Time // the last look
	gone  bool      // nobody finds it any more
}

// shelf is what all viewers have open.
type shelf struct {
	mu  sync.Mutex
	all []*held
}

// Hold returns what a viewer has open under a key. The first look has it opened in the background, and again if it is
// open in another version; what opens it may not use the look. While it is being opened the error is ErrOpening, and an
// open page is made again when it is open, and whenever a value that is a Changer has changed. The value may be used
// until release is called.
func Hold[T io.Closer](l *Look, key, version string, open func(context.Context) (T, error)) (value T, release func(),
	err error,
) {
	s := l.shelf
	h, err := s.find(l.Viewer, key, version, func(ctx context.Context) (io.Closer, error) { return open(ctx) })
	if err != nil {
		return value, nil, err
	}
	l.made(h)
	timer := time.NewTimer(firstAnswer)
	defer timer.Stop()
	select {
	case <-h.opened:
	case <-timer.C:
		return value, nil, ErrOpening
	case <-l.Request.Context().Done():
		return value, nil, l.Request.Context().Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.err != nil {
		l.Again(openAgain)
		return value, nil, h.err
	}
	value, ok := h.value.(T)
	if !ok || h.gone { // it was closed meanwhile
		return value, nil, ErrOpening
	}
	h.users++
	return value, sync.OnceFunc(func() {
		s.mu.Lock()
		h.users--
		h.used = time.Now()
		unused := s.unused(h)
		s.mu.Unlock()
		closeAll(unused)
	}), nil
}

// Changer is a value that changes while it is open.
type Changer interface {
	// OnChange sets the function to call after changes.
	OnChange(changed func())
}

// Drop closes what a viewer has open under a key, when the looks at it have ended.
func Drop(l *Look, key string) {
	l.shelf.drop(func(h *held) bool { return h.of == l.Viewer && h.key == key })
}

// find returns what a viewer has open, and begins to open it if it is not. What was not used for the longest time makes
// room for it.
func (s *shelf) find(v *Viewer, key, version string, open func(context.Context) (io.Closer, error)) (*held, error) {
	s.mu.Lock()
	var unused []io.Closer
	defer func() { closeAll(unused) }()
	defer s.mu.Unlock()
	for _, h := range s.all {
		if h.of != v || h.key != key {
			continue
		}
		if h.version == version && (h.err == nil || time.Since(h.used) < openAgain) {
			if h.err == nil {
				h.used = time.Now()
			}
			return h, nil
		}
		unused = append(unused, s.take(h)...)
		break
	}
	closed, err := s.makeRoom(v)
	if unused = append(unused, closed...); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(v.ctx, openWithin)
	h := &held{of: v, key: key, version: version, opened: make(chan struct{}), used: time.Now()}
	leave := context.AfterFunc(v.ctx, func() { s.drop(func(other *held) bool { return other == h }) })
	h.stop = func() { cancel(); leave() }
	s.all = append(s.all, h)
	go func() {
		value, err := open(ctx)
		if changer, ok := value.(Changer); ok && err == nil {
			changer.OnChange(h.wake)
		}
		s.mu.Lock()
		h.used = time.Now()
		if h.err = err; err == nil {
			h.value = value
		}
		unused := s.unused(h)
		s.mu.Unlock()
		close(h.opened)
		closeAll(unused)
		h.wake()
	}()
	return h, nil
}

// makeRoom has one more fit. It returns what is to be closed.
func (s *shelf) makeRoom(v *Viewer) ([]io.Closer, error) {
	own := 0
	var oldest, oldestOwn *held
	for _, h := range s.all {
		if h.of == v {
			own++
		}
		if h.users > 0 || h.heard() {
			continue
		}
		if oldest == nil || h.used.Before(oldest.used) {
			oldest = h
		}
		if h.of == v && (oldestOwn == nil || h.used.Before(oldestOwn.used)) {
			oldestOwn = h
		}
	}
	out := oldest
	switch {
	case own >= mostHeldByOne:
		out = oldestOwn
	case len(s.all) < mostHeld:
		return nil, nil
	}
	if out == nil {
		return nil, fmt.Errorf("%d pages like this one are open, and each keeps a file or a stream: close some of them, and "+
			"load this page again", len(s.all))
	}
	return s.take(out), nil
}

// drop closes what is to go, as soon as nobody uses it.
func (s *shelf) drop(goes func(*held) bool) {
	s.mu.Lock()
	var unused []io.Closer
	for _, h := range slices.Clone(s.all) {
		if goes(h) {
			unused = append(unused, s.take(h)...)
		}
	}
	s.mu.Unlock()
	closeAll(unused)
}

// sweep closes what nobody has looked at for a while.
func (s *shelf) sweep() {
	s.drop(func(h *held) bool { return h.users == 0 && !h.heard() && time.Since(h.used) > feedIdle })
}

// take takes something from the shelf. It returns what is to be closed; what is in use is closed later.
func (s *shelf) take(h *held) []io.Closer {
	h.gone = true
	h.stop()
	s.all = slices.DeleteFunc(s.all, func(other *held) bool { return other == h })
	return s.unused(h)
}

// unused returns the value if nobody can use it any more.
func (s *shelf) unused(h *held) []io.Closer {
	if !h.gone || h.users > 0 || h.value == nil {
		return nil
	}
	value := h.value
	h.value = nil
	return []io.Closer{value}
}

func closeAll(values []io.Closer) {
	for _, value := range values {
		_ = value.Close() // of what was only read
	}
}
