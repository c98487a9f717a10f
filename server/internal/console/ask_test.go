package console

import (
	"context"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestAsk shows when a question is asked again: not before the answer is old, and an answer that took long is kept for
// longer.
func TestAsk(t *testing.T) {
	t.Parallel()
	l := &Look{Viewer: &Viewer{ctx: t.Context(), questions: map[string]*question{}},
		Request: httptest.NewRequest("GET", "/", nil)}
	asked := 0
	ask := func() (int, bool) {
		return Ask(l, "server", time.Minute, func(context.Context) int { asked++; return asked })
	}
	answer, ok := ask()
	require.True(t, ok)
	require.Equal(t, 1, answer)
	q := l.question("server")
	for name, tt := range map[string]struct {
		age, took time.Duration
		again     bool
	}{
		"fresh":            {time.Second, time.Second, false},
		"old":              {2 * time.Minute, time.Second, true},
		"dear":             {2 * time.Minute, time.Minute, false},
		"old, though dear": {6 * time.Minute, time.Minute, true},
	} {
		q.mu.Lock()
		q.at, q.took = time.Now().Add(-tt.age), tt.took
		q.mu.Unlock()
		before, ok := ask()
		require.True(t, ok, name)
		for asking := true; asking; {
			q.mu.Lock()
			asking = q.asking != nil
			q.mu.Unlock()
			time.Sleep(time.Millisecond)
		}
		require.Equal(t, tt.again, asked > before, name)
	}
}
