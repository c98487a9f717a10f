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

// patient repeats requests while the API server does not respond, because an action that fails costs the item of a
// backup.
type patient struct {
	next http.RoundTripper
	long time.Duration // how long it repeats
}

// RoundTrip implements http.RoundTripper. All requests of this package are reads, or writes that may arrive twice.
func (p patient) RoundTrip(request *http.Request) (*http.Response, error) {
	ctx, began := request.Context(), time.Now()
	once := request.Body != nil && request.Body != http.NoBody && request.GetBody == nil
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		if request.GetBody != nil {
			body, err := request.GetBody()
			if err != nil {
				return nil, err
			}
			request = request.Clone(ctx)
			request.Body = body
		}
		response, err := p.next.RoundTrip(request)
		away := err != nil || response.StatusCode == http.StatusServiceUnavailable ||
			response.StatusCode == http.StatusBadGateway
		if !away || once || ctx.Err() != nil || time.Since(began) > p.long {
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
