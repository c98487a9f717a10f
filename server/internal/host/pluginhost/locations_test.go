package pluginhost

import (
	"context"
	"io"
	"net/url"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/versioning/objectstore"
)

// storeProcess returns the process id of a store, which is in its signed URLs.
func storeProcess(t *testing.T, store objectstore.Store) int {
	t.Helper()
	signed, err := store.CreateSignedURL(t.Context(), "b", "k", 1)
	require.NoError(t, err)
	parsed, err := url.Parse(signed)
	require.NoError(t, err)
	pid, err := strconv.Atoi(parsed.Query().Get("pid"))
	require.NoError(t, err)
	return pid
}

func readAll(r io.Reader) (int64, error) { return io.Copy(io.Discard, r) }

func TestObjectStoreIsOneProcessPerLocation(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, pluginDir(t, "behave"), nil)
	open := func(location, bucket string) objectstore.Store {
		store, err := h.ObjectStore(t.Context(), location, "example.io/store", map[string]string{"bucket": bucket})
		require.NoError(t, err)
		return store
	}
	first := open("one", "a")
	require.Equal(t, first, open("one", "a"), "the same configuration is the same store")
	second := open("two", "a")
	require.NotEqual(t, storeProcess(t, first), storeProcess(t, second))

	old := storeProcess(t, first)
	changed := open("one", "b")
	require.NotEqual(t, old, storeProcess(t, changed), "another configuration is another process")
	require.Equal(t, old, storeProcess(t, first), "who has the old store goes on using it")
	require.EqualError(t, first.Init(t.Context(), nil),
		"ObjectStore(example.io/store): it is initialised already, open it with another configuration instead")
}

func TestObjectStoreReturnsErrors(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, pluginDir(t, "behave", "exits"), nil)
	_, err := h.ObjectStore(t.Context(), "default", "aws", nil)
	require.Equal(t, `unknown object store provider "velero.io/aws"; known are: example.io/store; quarantined: /plugins/exits `+
		`(plugin /plugins/exits died during start: exit status 3; last on stderr: cannot read /etc/plugin.yaml: no such file or directory)`, h.golden(err))

	_, err = h.ObjectStore(t.Context(), "default", "example.io/store", map[string]string{"do": "refuse"})
	require.EqualError(t, err, `ObjectStore(example.io/store): key "regoin" is unknown, did you mean region`)
	for range 10 { // an error of Init does not count for the breaker
		_, err = h.ObjectStore(t.Context(), "default", "example.io/store", map[string]string{"do": "refuse"})
		require.EqualError(t, err, `ObjectStore(example.io/store): key "regoin" is unknown, did you mean region`)
	}
}

func TestObjectStoreStopsWhenCallerCancels(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, pluginDir(t, "behave"), nil)
	ctx, cancel := context.WithCancel(t.Context())
	opened := make(chan error)
	go func() {
		_, err := h.ObjectStore(ctx, "default", "example.io/store", map[string]string{"do": "hang", "bucket": "b"})
		opened <- err
	}()
	h.requireInJournal(t, "Init bucket=b")
	cancel()
	require.ErrorIs(t, <-opened, context.Canceled)
}
