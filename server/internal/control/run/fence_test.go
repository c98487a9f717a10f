package run

import (
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
	"k8s.io/client-go/rest"
	"k8s.io/streaming/pkg/httpstream/wsstream"

	"github.com/cleat-dev/cleat/versioning/objectstore"
)

func TestFenceClosesWithoutARenewal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := NewFence(10 * time.Second)
		passed := make(chan error, 1)
		wait := func() { go func() { passed <- f.Wait(t.Context()) }() }
		wait()
		synctest.Wait()
		require.Empty(t, passed, "it is closed before the first renewal")

		f.Renew(time.Now())
		require.NoError(t, <-passed)
		time.Sleep(10*time.Second - 1)
		require.NoError(t, f.Wait(t.Context()))
		time.Sleep(time.Nanosecond)
		wait()
		synctest.Wait()
		require.Empty(t, passed)
		f.Renew(time.Now()) // no other process has taken over
		require.NoError(t, <-passed)

		time.Sleep(10 * time.Second)
		wait()
		synctest.Wait()
		f.Lose()
		require.ErrorIs(t, <-passed, ErrLostLead)
		f.Renew(time.Now())
		require.ErrorIs(t, f.Wait(t.Context()), ErrLostLead, "for ever")
		require.ErrorIs(t, context.Cause(f.Lost()), ErrLostLead)
	})
}

// TestFenceKnowsBothClocks sets the clocks as after a stop of the process, and as after a suspension of its machine,
// during which the monotonic clock stands still.
func TestFenceKnowsBothClocks(t *testing.T) {
	t.Parallel()
	renewed := time.Now()
	for name, now := range map[string]time.Time{
		"suspended": renewed.Round(0).Add(time.Minute),
		"stopped":   renewed.Add(time.Minute),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := NewFence(10 * time.Second)
			f.Renew(renewed)
			f.now = func() time.Time { return now }
			open, _ := f.state()
			require.False(t, open)
		})
	}
}

func TestFenceWithoutALeaseIsOpen(t *testing.T) {
	t.Parallel()
	require.NoError(t, NewFence(0).Wait(t.Context()))
}

func TestFenceEndsTheWaitWithItsContext(t *testing.T) {
	t.Parallel()
	reason := errors.New("the run was deleted")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(reason)
	require.ErrorIs(t, NewFence(time.Hour).Wait(ctx), reason)
}

func TestFencedClientReadsButDoesNotWrite(t *testing.T) {
	t.Parallel()
	var got []string
	server := httptest.NewServer(
		http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = append(got, r.Method) }),
	)
	defer server.Close()
	f := NewFence(time.Hour)
	client, err := rest.HTTPClientFor(f.Config(&rest.Config{Host: server.URL}))
	require.NoError(t, err)
	f.Lose()
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete} {
		request, err := http.NewRequestWithContext(t.Context(), method, server.URL, strings.NewReader("x"))
		require.NoError(t, err)
		response, err := client.Do(request)
		if method == http.MethodGet || method == http.MethodHead {
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			continue
		}
		require.ErrorIs(t, err, ErrLostLead, method)
	}
	require.Equal(t, []string{http.MethodGet, http.MethodHead}, got)

	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
	require.NoError(t, err)
	request.Header[wsstream.WebSocketProtocolHeader] = []string{"v5.channel.k8s.io"}
	_, err = client.Do(request) //nolint:bodyclose // there is none
	require.ErrorIs(t, err, ErrLostLead, "a WebSocket runs a command")
}

// shelf is an object store that keeps the complete objects.
type shelf struct {
	objectstore.Store
	complete []string
	deleted  []string
}

func (s *shelf) PutObject(_ context.Context, _, key string, body io.Reader) error {
	if _, err := io.Copy(io.Discard, body); err != nil {
		return err
	}
	s.complete = append(s.complete, key)
	return nil
}

func (s *shelf) DeleteObject(_ context.Context, _, key string) error {
	s.deleted = append(s.deleted, key)
	return nil
}

// losing is a body during which the lease is lost.
type losing struct {
	io.Reader
	fence *Fence
}

func (l losing) Read(p []byte) (int, error) {
	l.fence.Lose()
	return l.Reader.Read(p)
}

func TestFencedStoreCompletesAndDeletesNothing(t *testing.T) {
	t.Parallel()
	f, objects := NewFence(time.Hour), &shelf{}
	f.Renew(time.Now())
	fenced := f.Store(objects)
	require.NoError(t, fenced.PutObject(t.Context(), "b", "before", strings.NewReader("x")))
	require.NoError(t, fenced.DeleteObject(t.Context(), "b", "before"))
	require.ErrorIs(t, fenced.PutObject(t.Context(), "b", "during", losing{strings.NewReader("x"), f}), ErrLostLead)
	require.ErrorIs(t, fenced.PutObject(t.Context(), "b", "after", strings.NewReader("x")), ErrLostLead)
	require.ErrorIs(t, fenced.DeleteObject(t.Context(), "b", "after"), ErrLostLead)
	require.Equal(t, []string{"before"}, objects.complete)
	require.Equal(t, []string{"before"}, objects.deleted)
}
