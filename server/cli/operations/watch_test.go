package operations

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/status"
	"github.com/cleat-dev/cleat/server/cli/status/statustest"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
)

// document returns the operation of a backup some seconds after noon.
func document(seconds int, phase string, done int64) status.Operations {
	return status.NewOperations("velero",
		serverreport.NewOperations(statustest.At(time.Duration(seconds)*time.Second).Time, []serverreport.OperationsOf{{
			Kind: "Backup", Name: "b", UID: "1",
			Operations: []serverreport.Operation{{Plugin: "a.b/c", ID: "1", Resource: "pods", Name: "p", Phase: phase,
				Done:  done,
				Total: 100}},
		}}), "")
}

func nobody(seconds int) status.Operations {
	return status.NewOperations("velero",
		serverreport.NewOperations(statustest.At(time.Duration(seconds)*time.Second).Time, nil), "")
}

func TestChangesAreLines(t *testing.T) {
	t.Parallel()
	var out, notes bytes.Buffer
	view, err := newView(&out, &notes, "table")
	require.NoError(t, err)
	away := document(6, "InProgress", 12)
	away.Problem = "no answer\nwithin 5s"
	for _, now := range []status.Operations{
		document(0, "New", 0), document(2, "InProgress", 10), document(4, "InProgress", 12), away, away, document(10,
			"Completed", 100), nobody(12), nobody(14),
	} {
		require.NoError(t, view.show(now, nil))
	}
	require.Equal(t, `2026-03-04T12:00:00Z  backup/b: a.b/c for pods/p: New, 0 of 100
2026-03-04T12:00:02Z  backup/b: a.b/c for pods/p: InProgress, 10 of 100
2026-03-04T12:00:10Z  backup/b: a.b/c for pods/p: Completed, 100 of 100
2026-03-04T12:00:12Z  backup/b: the server does not follow its operations any more
`, out.String())
	require.Equal(t, "no answer within 5s\n", notes.String())
	_, err = newView(&out, &notes, "yaml")
	require.EqualError(t, err, `--output "yaml" with --watch: want table or json`)
}

func TestChangesAreDocuments(t *testing.T) {
	t.Parallel()
	var out, notes bytes.Buffer
	view, err := newView(&out, &notes, "json")
	require.NoError(t, err)
	for _, now := range []status.Operations{document(0, "New", 0), document(2, "New", 0), document(4, "New", 5),
		nobody(6)} {
		require.NoError(t, view.show(now, nil))
	}
	require.NoError(t, view.note("away"))
	require.NoError(t, view.note("away"))
	var times []string
	for line := range strings.Lines(out.String()) {
		var read struct{ Kind, Time string }
		require.NoError(t, json.Unmarshal([]byte(line), &read))
		require.Equal(t, "Operations", read.Kind)
		times = append(times, read.Time)
	}
	require.Equal(t, []string{"2026-03-04T12:00:00Z", "2026-03-04T12:00:04Z", "2026-03-04T12:00:06Z"}, times)
	require.Equal(t, "away\n", notes.String())
}

func TestScreenShowsRates(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s := &screen{command.NewScreen(&out, func() (int, int) { return 200, 24 })}
	var past history
	for i := range 30 { // a report every two seconds, in which half of one is done
		now := document(2*i, "InProgress", int64(i))
		require.NoError(t, s.show(now, past.add(now)))
	}
	require.Contains(t, out.String(), "29 of 100   29%   0.5/s   2m22s")
	require.Len(t, past, 16, "those of half a minute")

	stored := document(60, "InProgress", 40)
	stored.Problem = "away"
	require.Nil(t, past.add(stored))
	require.Nil(t, past.add(document(62, "InProgress", 41)))
	require.NotNil(t, past.add(document(64, "InProgress", 42)))
}

// memory is a view that records what it shows.
type memory struct {
	shown []string
	fails error
}

func (m *memory) show(now status.Operations, _ *serverreport.Operations) error {
	m.shown = append(m.shown, now.Owners[0].Operations[0].Phase)
	return m.fails
}

func (m *memory) note(text string) error {
	m.shown = append(m.shown, text)
	return m.fails
}

func TestWatchOutlastsTheAPIServer(t *testing.T) {
	t.Parallel()
	away, broken := errors.New("connection refused"), errors.New("broken pipe")
	forbidden := apierrors.NewForbidden(velerov1.Resource("backups"), "", errors.New("no"))
	for name, tt := range map[string]struct {
		answers []error // nil is a report; then the user stops
		fails   error   // of the view
		shown   []string
		want    error
	}{
		"stopped": {answers: []error{nil, nil}, shown: []string{"New", "New"}},
		"away for a time": {answers: []error{nil, away, nil},
			shown: []string{"New", "the API server cannot be reached; the display continues when it can: connection refused",
				"New"}},
		"away at first":   {answers: []error{away}, want: away},
		"forbidden later": {answers: []error{nil, forbidden}, shown: []string{"New"}, want: forbidden},
		"nobody reads it": {answers: []error{nil}, fails: broken, shown: []string{"New"}, want: broken},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				asked := 0
				view := &memory{fails: tt.fails}
				err := watch(ctx, func(context.Context) (status.Operations, error) {
					if asked++; asked > len(tt.answers) {
						stop()
						return status.Operations{}, ctx.Err()
					}
					return document(asked, "New", 0), tt.answers[asked-1]
				}, view)
				require.ErrorIs(t, err, tt.want)
				require.Equal(t, tt.shown, view.shown)
			})
		})
	}
}
