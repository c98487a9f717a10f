package run_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/controllertest"
	"github.com/cleat-dev/cleat/server/internal/control/run"
)

func toInProgress(b *velerov1.Backup) error {
	b.Status.Phase = velerov1.BackupPhaseInProgress
	b.Status.StartTimestamp = run.Timestamp(controllertest.Noon())
	return nil
}

// faults is a transport that answers the first patches itself.
type faults struct {
	next   http.RoundTripper
	faults []func(next http.RoundTripper, r *http.Request) (*http.Response, error)
	at     atomic.Int32
	sent   atomic.Int32
}

func (f *faults) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPatch {
		return f.next.RoundTrip(r)
	}
	f.sent.Add(1)
	if i := int(f.at.Add(1)) - 1; i < len(f.faults) {
		return f.faults[i](f.next, r)
	}
	return f.next.RoundTrip(r)
}

func refused(http.RoundTripper, *http.Request) (*http.Response, error) {
	return nil, errors.New("connection refused")
}

func answerLost(next http.RoundTripper, r *http.Request) (*http.Response, error) {
	response, err := next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	return nil, errors.New("connection reset by peer")
}

func unavailableNow(_ http.RoundTripper, r *http.Request) (*http.Response, error) {
	body := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"ServiceUnavailable","code":503}`
	return &http.Response{
		StatusCode: http.StatusServiceUnavailable, Request: r, Body: io.NopCloser(bytes.NewReader([]byte(body))),
		Header: http.Header{"Content-Type": {"application/json"}},
	}, nil
}

func TestAdvanceWritesOnceDespiteFailures(t *testing.T) {
	t.Parallel()
	for name, faulty := range map[string][]func(http.RoundTripper, *http.Request) (*http.Response, error){
		"nothing":              nil,
		"refused twice":        {refused, refused},
		"answer lost":          {answerLost},
		"unavailable for once": {unavailableNow},
		"all of it":            {refused, unavailableNow, answerLost},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var f *faults
			c := controllertest.NewCluster(t, func(next http.RoundTripper) http.RoundTripper {
				f = &faults{next: next, faults: faulty}
				return f
			})
			b := controllertest.NewBackup("b", controllertest.InPhase(velerov1.BackupPhaseReadyToStart))
			c.Add(t, b)
			generation := b.Generation
			require.NoError(t, c.AdvanceBackup(t.Context(), b, toInProgress))

			var there velerov1.Backup
			require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(b), &there))
			require.Equal(t, velerov1.BackupPhaseInProgress, there.Status.Phase)
			require.Equal(t, there.ResourceVersion, b.ResourceVersion, "b holds the newest state")
			require.Equal(t, generation+1, there.Generation, "it was written once")
		})
	}
}

func TestAdvanceKeepsConcurrentEdits(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, nil)
	b := controllertest.NewBackup("b", controllertest.InPhase(velerov1.BackupPhaseReadyToStart))
	c.Add(t, b)
	edited := b.DeepCopy()
	edited.Labels = map[string]string{"edited": "yes"}
	edited.Spec.IncludedNamespaces = []string{"other"}
	require.NoError(t, c.Update(t.Context(), edited))

	changes := 0
	require.NoError(t, c.AdvanceBackup(t.Context(), b, func(b *velerov1.Backup) error {
		changes++
		return toInProgress(b)
	}))
	require.Equal(t, 2, changes, "the change is applied again to the edited state")
	require.Equal(t, "yes", b.Labels["edited"])
	require.Equal(t, []string{"other"}, b.Spec.IncludedNamespaces)
	require.Equal(t, velerov1.BackupPhaseInProgress, b.Status.Phase)
}

// A change of an annotation is not taken for written because the status of the newest state is as wanted.
func TestAdvanceWritesAnnotationsBesideConcurrentEdits(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, nil)
	b := controllertest.NewBackup("b", controllertest.InPhase(velerov1.BackupPhaseFinalizing))
	c.Add(t, b)
	edited := b.DeepCopy()
	edited.Labels = map[string]string{"edited": "yes"}
	require.NoError(t, c.Update(t.Context(), edited))
	require.NoError(t, c.AdvanceBackup(t.Context(), b, func(b *velerov1.Backup) error {
		b.Annotations = map[string]string{"noted": "yes"}
		return nil
	}))
	there := c.Backup(t, "b")
	require.Equal(t, "yes", there.Annotations["noted"])
	require.Equal(t, "yes", there.Labels["edited"])
}

// The same state with other annotations is that of another write. Who has lost the reply recognises its own.
func TestAdvanceRecognisesItsAnnotations(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, nil)
	b := controllertest.NewBackup("b", controllertest.InPhase(velerov1.BackupPhaseFinalizing))
	c.Add(t, b)
	end := func(sums string) func(b *velerov1.Backup) error {
		return func(b *velerov1.Backup) error {
			b.Status.Phase = velerov1.BackupPhaseCompleted
			b.Annotations = map[string]string{velerov1.FilesAnnotation: sums}
			return nil
		}
	}
	stale := b.DeepCopy()
	require.NoError(t, c.AdvanceBackup(t.Context(), b.DeepCopy(), end("first")))
	require.ErrorIs(t, c.AdvanceBackup(t.Context(), stale, end("second")), run.ErrPhaseChanged)
	require.NoError(t, c.AdvanceBackup(t.Context(), b, end("first")))
	require.Equal(t, "first", c.Backup(t, "b").Annotations[velerov1.FilesAnnotation])
}

func TestAdvanceOverwritesNoOtherPhaseOrObject(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, nil)
	ready := controllertest.InPhase(velerov1.BackupPhaseReadyToStart)
	moved, removed, replaced := controllertest.NewBackup("moved", ready), controllertest.NewBackup("removed", ready),
		controllertest.NewBackup("replaced", ready)
	c.Add(t, moved, removed, replaced)

	deleting := moved.DeepCopy()
	deleting.Status.Phase = velerov1.BackupPhaseDeleting
	require.NoError(t, c.Update(t.Context(), deleting))
	require.ErrorIs(t, c.AdvanceBackup(t.Context(), moved, toInProgress), run.ErrPhaseChanged)

	require.NoError(t, c.Delete(t.Context(), removed.DeepCopy()))
	require.ErrorIs(t, c.AdvanceBackup(t.Context(), removed, toInProgress), run.ErrNotFound)

	require.NoError(t, c.Delete(t.Context(), replaced.DeepCopy()))
	c.Add(t, controllertest.NewBackup("replaced", ready))
	require.ErrorIs(t, c.AdvanceBackup(t.Context(), replaced, toInProgress), run.ErrNotFound)
}

func TestAdvanceFailsIfAnotherClientWasFirst(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, nil)
	b := controllertest.NewBackup("b", controllertest.InPhase(velerov1.BackupPhaseReadyToStart))
	c.Add(t, b)
	ours, theirs := b.DeepCopy(), b.DeepCopy()
	require.NoError(t, c.AdvanceBackup(t.Context(), theirs, func(b *velerov1.Backup) error {
		b.Status.Phase = velerov1.BackupPhaseInProgress
		b.Status.StartTimestamp = run.Timestamp(controllertest.Noon().Add(-1e9))
		return nil
	}))
	require.ErrorIs(t, c.AdvanceBackup(t.Context(), ours, toInProgress), run.ErrPhaseChanged)
}

func TestAdvanceRefusesOtherTransitions(t *testing.T) {
	t.Parallel()
	var f *faults
	c := controllertest.NewCluster(t, func(next http.RoundTripper) http.RoundTripper {
		f = &faults{next: next}
		return f
	})
	b := controllertest.NewBackup("b", controllertest.InPhase(velerov1.BackupPhaseCompleted))
	c.Add(t, b)
	require.ErrorContains(t, c.AdvanceBackup(t.Context(), b, toInProgress),
		"a backup does not go from Completed to InProgress")
	require.Zero(t, f.sent.Load())
}

func TestAdvanceDoesNotRepeatRejectedWrites(t *testing.T) {
	t.Parallel()
	var f *faults
	c := controllertest.NewCluster(t, func(next http.RoundTripper) http.RoundTripper {
		f = &faults{next: next}
		return f
	})
	b := controllertest.NewBackup("b", controllertest.InPhase(velerov1.BackupPhaseReadyToStart))
	c.Add(t, b)
	err := c.AdvanceBackup(t.Context(), b, func(b *velerov1.Backup) error {
		b.Labels = map[string]string{"k": strings.Repeat("x", 64)}
		return toInProgress(b)
	})
	require.ErrorContains(t, err, "must be no more than 63")
	require.EqualValues(t, 1, f.sent.Load())
}

func TestAdvanceEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	c := controllertest.NewCluster(t, func(next http.RoundTripper) http.RoundTripper {
		return &faults{next: next, faults: []func(http.RoundTripper, *http.Request) (*http.Response, error){
			func(http.RoundTripper, *http.Request) (*http.Response, error) {
				cancel(run.ErrShutdown)
				return nil, errors.New("connection refused")
			},
		}}
	})
	b := controllertest.NewBackup("b", controllertest.InPhase(velerov1.BackupPhaseReadyToStart))
	c.Add(t, b)
	err := c.AdvanceBackup(ctx, b, toInProgress)
	require.Error(t, err)
	var there velerov1.Backup
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(b), &there))
	require.Equal(t, velerov1.BackupPhaseReadyToStart, there.Status.Phase)
}

func TestTimestampHasWholeSeconds(t *testing.T) {
	t.Parallel()
	require.Zero(t, run.Timestamp(controllertest.Noon()).Nanosecond())
	require.True(t, run.Timestamp(controllertest.Noon()).Equal(&metav1.Time{Time: controllertest.Noon().Truncate(1e9)}))
}

// claimed returns toInProgress with a claim.
func claimed(by string, attempt int) func(*velerov1.Backup) error {
	return func(b *velerov1.Backup) error {
		run.Claim{By: by, Attempt: attempt}.Set(b)
		return toInProgress(b)
	}
}

func TestOnlyOneOfTwoStartsWithinASecondSucceeds(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, nil)
	b := controllertest.NewBackup("b", controllertest.InPhase(velerov1.BackupPhaseReadyToStart))
	c.Add(t, b)
	ours, theirs := b.DeepCopy(), b.DeepCopy()
	require.NoError(t, c.AdvanceBackup(t.Context(), theirs, claimed("they", 1)))
	require.ErrorIs(t, c.AdvanceBackup(t.Context(), ours, claimed("we", 1)), run.ErrPhaseChanged)
	require.Equal(t, "they", run.ClaimOf(c.Backup(t, "b")).By)
}

func TestTakenUpRunIsNotWrittenByItsFormerProcess(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, nil)
	b := controllertest.NewBackup("b", controllertest.InPhase(velerov1.BackupPhaseReadyToStart))
	c.Add(t, b)
	require.NoError(t, c.AdvanceBackup(t.Context(), b, claimed("former", 1)))
	former := b.DeepCopy()
	require.NoError(t, c.AdvanceBackup(t.Context(), b, claimed("next", 2)))

	err := c.AdvanceBackup(t.Context(), former, func(b *velerov1.Backup) error {
		run.FailedBackup(errors.New("late"), controllertest.Noon())(b)
		return nil
	})
	require.ErrorIs(t, err, run.ErrPhaseChanged)
	require.Equal(t, velerov1.BackupPhaseInProgress, c.Backup(t, "b").Status.Phase)
}

func TestTakeUpIsCountedOnceIfTheReplyIsLost(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, func(next http.RoundTripper) http.RoundTripper {
		return &faults{next: next, faults: []func(http.RoundTripper, *http.Request) (*http.Response, error){answerLost}}
	})
	b := controllertest.NewBackup("b", controllertest.InPhase(velerov1.BackupPhaseInProgress))
	c.Add(t, b)
	require.NoError(t, c.AdvanceBackup(t.Context(), b, func(b *velerov1.Backup) error {
		return claimed("we", run.ClaimOf(b).Attempt+1)(b)
	}))
	require.Equal(t, run.Claim{By: "we", Attempt: 2}, run.ClaimOf(c.Backup(t, "b")))
}
