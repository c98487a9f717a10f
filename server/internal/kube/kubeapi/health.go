package kubeapi

import (
	"errors"
	"sync"
	"time"
)

// health keeps track of whether the API server responds, over all requests of a client.
type health struct {
	mu      sync.Mutex
	failing time.Time // since when every request has failed; zero if the last one succeeded or failed for good
	silent  time.Time // since when there has been no reply at all
	back    time.Time // when the last silence ended
}

// change is a change of health that is worth a line in the log.
type change int

const (
	unchanged change = iota
	wentSilent
	cameBack
)

// record takes note of how an attempt ended.
func (h *health) record(err error, now time.Time) change {
	if neverSent(err) {
		return unchanged
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if errors.Is(err, ErrTooLarge) {
		err = nil
	}
	switch {
	case err == nil || !Transient(err):
		h.failing = time.Time{}
	case h.failing.IsZero():
		h.failing = now
	}
	_, replied := statusCode(err)
	switch {
	case err != nil && !replied && h.silent.IsZero():
		h.silent = now
		return wentSilent
	// The proxy of a server that is away replies 502 or 503.
	case (err == nil || !isUnavailable(err)) && !h.silent.IsZero():
		h.silent, h.back = time.Time{}, now
		return cameBack
	}
	return unchanged
}

// durations returns for how long every request has failed and for how long there has been no reply.
func (h *health) durations(now time.Time) (failing, silent time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	since := func(start time.Time) time.Duration {
		if start.IsZero() {
			return 0
		}
		return now.Sub(start)
	}
	return since(h.failing), since(h.silent)
}

// starting reports whether a silence ended only a moment ago.
func (h *health) starting(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.back.IsZero() && now.Sub(h.back) < startTime
}
