package console

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/internal/console"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
)

// TestReportBefore looks at reports about operations again and again.
func TestReportBefore(t *testing.T) {
	t.Parallel()
	l := &console.Look{Viewer: &console.Viewer{}}
	at := func(seconds int) *serverreport.Operations {
		return &serverreport.Operations{Time: time.Unix(int64(seconds), 0)}
	}
	first, second := at(1), at(2)
	require.Nil(t, reportBefore(l, "a", first))
	require.Nil(t, reportBefore(l, "a", first), "the same one again")
	require.Same(t, first, reportBefore(l, "a", second))
	require.Same(t, first, reportBefore(l, "a", second), "another look at the last one")
	require.Nil(t, reportBefore(l, "a", first), "an old one, by another page")
	require.Nil(t, reportBefore(l, "b", at(3)), "about something else")
	require.Same(t, pacesOf(l), pacesOf(l))
}
