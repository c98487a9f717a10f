package kubeapi

import "net/http"

// DryRun returns a transport whose writes have no effect: the API server admits and validates them, and stores nothing.
// It is for rest.Config.Wrap, so that no request of a client can be forgotten.
func DryRun(next http.RoundTripper) http.RoundTripper { return dryRun{next} }

type dryRun struct{ next http.RoundTripper }

func (d dryRun) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodGet && request.Method != http.MethodHead {
		request = request.Clone(request.Context())
		query := request.URL.Query()
		query.Set("dryRun", "All")
		request.URL.RawQuery = query.Encode()
	}
	return d.next.RoundTrip(request)
}
