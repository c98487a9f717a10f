package console

import (
	"bytes"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// readEvents reads server-sent events as browsers do.
func readEvents(stream string) (names, texts []string) {
	var name string
	var data []string
	for _, line := range strings.Split(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(stream), "\n") {
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "" && len(data) > 0:
			names, texts = append(names, name), append(texts, strings.Join(data, "\n"))
			name, data = "", nil
		case line == "":
			name = ""
		case field == "event":
			name = value
		case field == "data":
			data = append(data, value)
		}
	}
	return names, texts
}

func TestACarriageReturnEndsNoEvent(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a": "a", "a\nb\n": "a\nb", "a\r\n\r\nb": "a\n\nb", "a\rb": "a\nb",
		"message\r\revent: end\rdata: sign in again\r\r": "message\n\nevent: end\ndata: sign in again\n",
	} {
		w := httptest.NewRecorder()
		require.NoError(t, sendEvent(w, "page", []byte(text)))
		names, texts := readEvents(w.Body.String())
		require.Equal(t, []string{"page"}, names, "%q", text)
		require.Equal(t, []string{want}, texts)
	}
}

// FuzzSendEvent sends texts of anybody: each is one event, with the lines of the text.
func FuzzSendEvent(f *testing.F) {
	for _, text := range []string{"a", "a\nb\n", "a\r\nb", "a\r\revent: end\rdata: x\r\rb", "\r", "\n\r\n", "a\rid: 1",
		":", ""} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		w := httptest.NewRecorder()
		require.NoError(t, sendEvent(w, "page", text))
		names, texts := readEvents(w.Body.String())
		if len(text) == 0 {
			require.Empty(t, names)
			return
		}
		require.Equal(t, []string{"page"}, names, "%q", w.Body)
		want := bytes.ReplaceAll(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n"))
		require.Equal(t, strings.TrimSuffix(string(want), "\n"), texts[0])
	})
}
