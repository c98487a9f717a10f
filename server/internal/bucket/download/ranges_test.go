package download

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework/hostapi"
)

func TestByteRange(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]hostapi.Range{
		"bytes=0-0": {Length: 1}, "bytes=5-24": {Offset: 5, Length: 20}, "bytes=100-": {Offset: 100}, "bytes=-7": {Offset: -7},
	} {
		got, ok := byteRange(header)
		require.True(t, ok, header)
		require.Equal(t, want, got, header)
	}
	for _, header := range []string{"", "bytes", "bytes=", "bytes=-", "bytes=-0", "bytes=--5", "bytes=5-4", "bytes=a-b",
		"bytes=0-1,5-9", "items=0-1", "bytes=-1-5", "bytes=0-9223372036854775807", "bytes=99999999999999999999-"} {
		_, ok := byteRange(header)
		require.False(t, ok, header)
	}
}

func TestPartsAreSentAsTheyWereAsked(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		asked   hostapi.Range
		part    hostapi.Part
		content string
		status  int
		rang    string
		err     string
	}{
		"a part":      {hostapi.Range{Offset: 2, Length: 3}, hostapi.Part{Offset: 2, Size: 9}, "cde", 206, "bytes 2-4/9", ""},
		"the end":     {hostapi.Range{Offset: -3}, hostapi.Part{Offset: 6, Size: 9}, "ghi", 206, "bytes 6-8/9", ""},
		"none":        {hostapi.Range{Offset: 20}, hostapi.Part{Offset: 9, Size: 9}, "", 416, "bytes */9", ""},
		"another one": {hostapi.Range{Offset: 2}, hostapi.Part{Offset: 0, Size: 9}, "abc", 200, "", "want that from 2 on"},
		"a short one": {hostapi.Range{Offset: 2, Length: 3}, hostapi.Part{Offset: 2, Size: 9}, "cd", 206, "bytes 2-4/9", "EOF"},
	} {
		w := httptest.NewRecorder()
		err := sendPart(w, test.asked, &test.part, strings.NewReader(test.content))
		if test.err != "" {
			require.ErrorContains(t, err, test.err, name)
		} else {
			require.NoError(t, err, name)
		}
		require.Equal(t, test.status, w.Code, name)
		require.Equal(t, test.rang, w.Header().Get("Content-Range"), name)
		if test.status == 206 {
			require.Equal(t, test.content, w.Body.String(), name)
		}
	}
}
