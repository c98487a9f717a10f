package kubeapi

import (
	"context"
	"net/http"
)

// DryRun returns a transport whose writes have no effect: the API server admits and validates them, and stores nothing.
// It is for rest.Config.Wrap, so that no request of a client can be forgotten.
func DryRun(next http.RoundTripper) http.RoundTripper { return dryRun{next: next} }

// DryRunMarked is like DryRun for the requests with a context of WithDryRun only.
func DryRunMarked(next http.RoundTripper) http.RoundTripper { return dryRun{next: next, marked: true} }

// markDryRun is the key of a context whose writes have no effect.
type markDryRun struct{}

// WithDryRun returns a context whose writes have no effect, with a client of DryRunMarked.
func WithDryRun(ctx context.Context) context.Context {
	return context.WithValue(ctx, markDryRun{}, true)
}

type dryRun struct {
	next   http.RoundTripper
	marked bool // only requests with a context that is marked
}

func (d dryRun) RoundTrip(request *http.Request) (*http.Response, error) {
	if d.marked && request.Context().Value(markDryRun{}) == nil {
		return d.next.RoundTrip(request)
	}
	if request.Method != http.MethodGet && request.Method != http.MethodHead {
		request = request.Clone(request.Context())
		query := request.URL.Query()
		query.Set("dryRun", "All")
		request.URL.RawQuery = query.Encode()
	}
	return d.next.RoundTrip(request)
}
