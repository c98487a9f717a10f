package runs

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// at returns the file at a URL.
func at(t *testing.T, handler http.HandlerFunc) *File {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	address, err := url.Parse(server.URL)
	require.NoError(t, err)
	f := &File{target: Target{Kind: "BackupResourceList", Name: "nightly"}, address: address, client: server.Client()}
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f
}

func readRange(t *testing.T, f *File, offset, length int64) (string, error) {
	t.Helper()
	body, err := f.ReadRange(t.Context(), offset, length)
	if err != nil {
		return "", err
	}
	content, err := io.ReadAll(body)
	require.NoError(t, body.Close())
	return string(content), err
}

func TestRangesOfAFile(t *testing.T) {
	t.Parallel()
	const content = "0123456789"
	for name, tt := range map[string]struct {
		handler  http.HandlerFunc
		requests int
	}{
		"a server with ranges": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"1"`)
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader([]byte(content)))
		}, 3},
		"a server without ranges": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, content) }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requests := 0
			f := at(t, func(w http.ResponseWriter, r *http.Request) {
				requests++
				tt.handler(w, r)
			})
			tail, size, err := f.Tail(t.Context(), 4)
			require.NoError(t, err)
			require.Equal(t, "6789", string(tail))
			require.EqualValues(t, 10, size)
			got, err := readRange(t, f, 2, 3)
			require.NoError(t, err)
			require.Equal(t, "234", got)
			tail, _, err = f.Tail(t.Context(), 100)
			require.NoError(t, err)
			require.Equal(t, content, string(tail))
			require.Equal(t, tt.requests, requests)
			whole, err := f.Open(t.Context())
			require.NoError(t, err)
			all, err := io.ReadAll(whole)
			require.NoError(t, err)
			require.NoError(t, whole.Close())
			require.Equal(t, content, string(all))
		})
	}
}

func TestAFileThatIsReplacedWhileItIsRead(t *testing.T) {
	t.Parallel()
	tag := `"1"`
	f := at(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", tag)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader([]byte("0123456789")))
	})
	_, _, err := f.Tail(t.Context(), 4)
	require.NoError(t, err)
	tag = `"2"`
	_, err = readRange(t, f, 2, 3)
	require.EqualError(t, err, "download BackupResourceList nightly: the file was replaced while it was read, try again")
}

func TestWrongAnswersToRanges(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		status int
		header string
		want   string
	}{
		"other range": {http.StatusPartialContent, "bytes 0-3/10",
			`the object storage answered with the wrong range "bytes 0-3/10"`},
		"no range":       {http.StatusPartialContent, "", `the object storage answered with the wrong range ""`},
		"negative":       {http.StatusPartialContent, "bytes -6--3/10", "the object storage answered with the wrong range"},
		"more than told": {http.StatusPartialContent, "bytes 0-9/10", "the object storage answered with the wrong range"},
		"refused":        {http.StatusForbidden, "", "the object storage answered 403 Forbidden: abcd"},
		"not there":      {http.StatusNotFound, "", "file not found"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := at(t, func(w http.ResponseWriter, _ *http.Request) {
				if tt.header != "" {
					w.Header().Set("Content-Range", tt.header)
				}
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, "abcd")
			})
			_, _, err := f.Tail(t.Context(), 4)
			require.ErrorContains(t, err, tt.want)
			_, err = readRange(t, f, 2, 3)
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestATruncatedTail(t *testing.T) {
	t.Parallel()
	f := at(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Range", "bytes 6-9/10")
		w.WriteHeader(http.StatusPartialContent)
		_, _ = io.WriteString(w, "67")
	})
	_, _, err := f.Tail(t.Context(), 4)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}
