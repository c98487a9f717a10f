package cluster

import (
	"io"
	"net/http"
	"time"
)

const (
	// outage is how long reads are repeated while the API server is away.
	outage = 5 * time.Minute
	// The pause between two attempts doubles from firstPause to longestPause.
	firstPause   = 100 * time.Millisecond
	longestPause = 3 * time.Second
)

// patient repeats reads while the API server does not respond, because an action that fails costs the item of a backup.
type patient struct {
	next http.RoundTripper
	long time.Duration // how long it repeats
}

// RoundTrip implements http.RoundTripper. All requests of this package are reads without a body.
func (p patient) RoundTrip(request *http.Request) (*http.Response, error) {
	ctx, began := request.Context(), time.Now()
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		response, err := p.next.RoundTrip(request)
		away := err != nil || response.StatusCode == http.StatusServiceUnavailable || response.StatusCode == http.StatusBadGateway
		if !away || ctx.Err() != nil || time.Since(began) > p.long {
			return response, err
		}
		if response != nil {
			_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 64<<10)) // so that the connection can be used again
			_ = response.Body.Close()
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		}
	}
}
