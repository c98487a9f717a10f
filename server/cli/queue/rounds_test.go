package queue

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/cli/status"
	"github.com/cleat-dev/cleat/server/cli/status/statustest"
	"github.com/cleat-dev/cleat/versioning/queueadmission"
)

// playWith simulates with the given policy.
func playWith(
	t *testing.T, names []string, decide func(*queueadmission.Snapshot) (*queueadmission.Decision, error),
) ([]status.Round, []string, error) {
	t.Helper()
	var content strings.Builder
	for _, name := range names {
		content.WriteString(backupOf(name, ""))
	}
	backups, _, err := parseBackups("x.yaml", []byte(content.String()), statustest.Noon())
	require.NoError(t, err)
	s := &simulation{backups: backups, limit: 1, now: statustest.Noon(),
		decide: func(_ context.Context, snapshot *queueadmission.Snapshot) (*queueadmission.Decision, error) {
			return decide(snapshot)
		}}
	var rounds []status.Round
	stuck, err := s.rounds(t.Context(), func(r status.Round) error {
		rounds = append(rounds, r)
		return nil
	})
	return rounds, stuck, err
}

// hold admits only the backups named by but, as far as slots are free.
func hold(snapshot *queueadmission.Snapshot, recheck time.Duration, but ...string) *queueadmission.Decision {
	decision := &queueadmission.Decision{RecheckAfter: recheck}
	for i := range snapshot.Queued {
		name := snapshot.Queued[i].Name
		if slices.Contains(but, name) && len(decision.Admit) < snapshot.Free() {
			decision.Admit = append(decision.Admit, name)
			continue
		}
		decision.Waiting = append(decision.Waiting, queueadmission.Waiting{Name: name, Reason: "Frozen", Message: "not now"})
	}
	return decision
}

func TestRoundsReturnBackupsThatNeverStart(t *testing.T) {
	t.Parallel()
	rounds, stuck, err := playWith(t, []string{"a", "b", "c"}, func(s *queueadmission.Snapshot) (*queueadmission.Decision,
		error) {
		return hold(s, 0, "b"), nil
	})
	require.NoError(t, err)
	require.Equal(t, []string{"a", "c"}, stuck)
	require.Len(t, rounds, 2)
	require.Equal(t, "b", rounds[0].Ends)
	require.Empty(t, rounds[1].Ends)

	asked := 0
	_, stuck, err = playWith(t, []string{"a"}, func(s *queueadmission.Snapshot) (*queueadmission.Decision, error) {
		asked++
		return hold(s, time.Second), nil
	})
	require.NoError(t, err)
	require.Equal(t, []string{"a"}, stuck)
	require.Equal(t, maxAsked+1, asked)
}

func TestRoundsAdvanceTimeUntilRecheck(t *testing.T) {
	t.Parallel()
	rounds, stuck, err := playWith(t, []string{"a", "b"}, func(s *queueadmission.Snapshot) (*queueadmission.Decision,
		error) {
		if s.Now.Before(statustest.Noon().Add(2 * time.Hour)) {
			return hold(s, time.Hour), nil
		}
		return hold(s, 0, "a", "b"), nil
	})
	require.NoError(t, err)
	require.Empty(t, stuck)
	require.Equal(t, "2h0m0s", rounds[0].After)
	require.Empty(t, rounds[1].After)
}

func TestRoundsEndWithFailingPolicy(t *testing.T) {
	t.Parallel()
	rounds, _, err := playWith(t, []string{"a", "b"}, func(s *queueadmission.Snapshot) (*queueadmission.Decision, error) {
		if len(s.Queued) < 2 {
			return nil, errors.New("the calendar is full")
		}
		return hold(s, 0, "a"), nil
	})
	require.EqualError(t, err, "round 2: the calendar is full")
	require.Len(t, rounds, 1)
}
