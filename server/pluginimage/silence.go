package pluginimage

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Silence is for how long a registry may send nothing before the request is given up.
type Silence time.Duration

// transport returns a transport that gives up requests whose answer does not begin, or does not go on.
func (s Silence) transport() http.RoundTripper {
	return &listening{limit: time.Duration(s), next: http.DefaultTransport}
}

// listening is the transport of Silence.
type listening struct {
	limit time.Duration
	next  http.RoundTripper
}

func (l *listening) RoundTrip(request *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(request.Context())
	timer := time.AfterFunc(l.limit, func() {
		cancel(fmt.Errorf("%s has sent nothing for %s, see --registry-timeout", request.URL.Host, l.limit))
	})
	response, err := l.next.RoundTrip(request.WithContext(ctx))
	if err != nil {
		timer.Stop()
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		cancel(nil)
		return nil, err
	}
	response.Body = &heard{ReadCloser: response.Body, ctx: ctx, cancel: cancel, timer: timer, limit: l.limit}
	return response, nil
}

// heard is the body of a response. Each read that gets something starts the time anew.
type heard struct {
	io.ReadCloser
	ctx    context.Context // of the request, which ends with its body
	cancel context.CancelCauseFunc
	timer  *time.Timer
	limit  time.Duration
}

func (h *heard) Read(p []byte) (int, error) {
	n, err := h.ReadCloser.Read(p)
	if n > 0 {
		h.timer.Reset(h.limit)
	}
	if cause := context.Cause(h.ctx); cause != nil && err != nil {
		err = cause
	}
	return n, err
}

func (h *heard) Close() error {
	h.timer.Stop()
	err := h.ReadCloser.Close()
	h.cancel(nil)
	return err
}
