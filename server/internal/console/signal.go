package console

import "sync"

// signal tells open pages that something has changed.
type signal struct {
	mu        sync.Mutex
	listeners map[chan<- struct{}]struct{}
}

// source is what a page was made of.
type source interface {
	listen(woken chan<- struct{}) (stop func())
}

// listen sends to woken, which has room for one, after each change until stop is called.
func (s *signal) listen(woken chan<- struct{}) (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listeners == nil {
		s.listeners = map[chan<- struct{}]struct{}{}
	}
	s.listeners[woken] = struct{}{}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.listeners, woken)
	}
}

func (s *signal) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for listener := range s.listeners {
		select {
		case listener <- struct{}{}:
		default: // it has not answered to the last one yet
		}
	}
}

// heard reports whether somebody listens.
func (s *signal) heard() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.listeners) > 0
}
