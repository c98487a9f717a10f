package cluster

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// away is an API server that refuses connections, then is not ready, and then replies.
type away struct{ refused, unready, sent int }

func (a *away) RoundTrip(*http.Request) (*http.Response, error) {
	a.sent++
	recorder := httptest.NewRecorder()
	switch {
	case a.sent <= a.refused:
		return nil, errors.New("connection refused")
	case a.sent <= a.refused+a.unready:
		recorder.WriteHeader(http.StatusServiceUnavailable)
	default:
		recorder.WriteHeader(http.StatusNotFound)
	}
	return recorder.Result(), nil
}

// written is an API server that reads what is written, also when it refuses that.
type written struct {
	away
	bodies []string
}

func (w *written) RoundTrip(request *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	w.bodies = append(w.bodies, string(body))
	return w.away.RoundTrip(request)
}

func TestWritesAreRepeatedAsAWhole(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := &written{away: away{unready: 2}}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://x/api", strings.NewReader("object"))
		require.NoError(t, err)
		response, err := patient{next: server, long: outage}.RoundTrip(request)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, []string{"object", "object", "object"}, server.bodies)

		server = &written{away: away{refused: 2}}
		request.Body, request.GetBody = io.NopCloser(strings.NewReader("once")), nil
		_, err = patient{next: server, long: outage}.RoundTrip(request)
		require.EqualError(t, err, "connection refused")
		require.Equal(t, []string{"once"}, server.bodies)
	})
}

func TestReadsWaitForTheAPIServer(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		server away
		limit  time.Duration // of the caller; 0 for none
		status int
		err    string
	}{
		"it replies":               {away{}, 0, http.StatusNotFound, ""},
		"it is away for some time": {away{refused: 10, unready: 10}, 0, http.StatusNotFound, ""},
		"it does not come back":    {away{refused: 1 << 20}, 0, 0, "connection refused"},
		"it does not get ready":    {away{unready: 1 << 20}, 0, http.StatusServiceUnavailable, ""},
		"the caller gives up":      {away{refused: 1 << 20}, time.Second, 0, "context deadline exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), cmp.Or(tt.limit, time.Hour))
				defer cancel()
				request := httptest.NewRequestWithContext(ctx, http.MethodGet, "/api", http.NoBody)
				response, err := patient{next: &tt.server, long: outage}.RoundTrip(request)
				if tt.err != "" {
					require.ErrorContains(t, err, tt.err)
					return
				}
				require.NoError(t, err)
				require.Equal(t, tt.status, response.StatusCode)
				require.NoError(t, response.Body.Close())
			})
		})
	}
}
