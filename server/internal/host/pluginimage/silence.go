package pluginimage

import (
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"time"
)

// Silence is for how long a registry may send nothing before the request is given up.
type Silence time.Duration

// transport returns a transport that gives up requests whose answer does not begin, or does not go on, or is too long,
// and that sends none without TLS, unless that is allowed or stays on this machine.
func (r Resolver) transport() http.RoundTripper {
	return &listening{limit: time.Duration(r.Silence), plain: r.PlainHTTP, next: http.DefaultTransport}
}

// listening is the transport of Silence.
type listening struct {
	limit time.Duration
	plain bool
	next  http.RoundTripper
}

// mostText is the longest answer of a registry that is not a layer, in bytes: a manifest, a list, a token or an error.
const mostText = 4 << 20

// onThisMachine reports whether requests to a host stay on this machine.
func onThisMachine(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (l *listening) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Scheme != "https" && !l.plain && !onThisMachine(request.URL.Hostname()) {
		return nil, fmt.Errorf("%s is to be asked without TLS, so everybody on the way could read the credentials and "+
			"change the answer; --plain-http allows that",
			request.URL.Host)
	}
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
	body := &heard{ReadCloser: response.Body, ctx: ctx, cancel: cancel, timer: timer, limit: l.limit, left: math.MaxInt64,
		host: request.URL.Host}
	first := request
	for first.Response != nil { // it was redirected
		first = first.Response.Request
	}
	if !strings.Contains(first.URL.Path, "/blobs/") {
		body.left = mostText
	}
	response.Body = body
	return response, nil
}

// heard is the body of a response. Each read that returns data starts the time anew.
type heard struct {
	io.ReadCloser
	ctx    context.Context // of the request, which ends with its body
	cancel context.CancelCauseFunc
	timer  *time.Timer
	limit  time.Duration
	host   string
	left   int64 // bytes that may follow
}

func (h *heard) Read(p []byte) (int, error) {
	n, err := h.ReadCloser.Read(p)
	if h.left -= int64(n); h.left < 0 {
		return 0, fmt.Errorf("%s has sent more than %d bytes that are not a layer", h.host, mostText)
	}
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
