package backupqueue

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/controllertest"
)

// side is one of the two API servers that are compared.
type side struct {
	plane
	client   client.Client
	observer *observer
	kept     map[string]*velerov1.Backup // states that were read some time ago
	replies  []string
	events   []string // guarded by observer.mu
}

// TestMemoryAnswersAsAPIServer makes the same random requests to a real API server and to the one in memory: all kinds
// of requests that the models make, from current and from old states. Replies and events are the same.
func TestMemoryAnswersAsAPIServer(t *testing.T) {
	t.Parallel()
	real := &side{observer: newObserver(queueRules{})}
	inMemory := &side{observer: newObserver(queueRules{})}
	sides := []*side{real, inMemory}
	for _, s := range sides {
		s.kept = map[string]*velerov1.Backup{}
		s.observer.record = func(kind watch.EventType, b *velerov1.Backup) {
			s.events = append(s.events, fmt.Sprintf("%s %s %s %d deleted=%v", kind, b.Name, b.Status.Phase,
				b.Status.QueuePosition, b.DeletionTimestamp != nil))
		}
	}
	ctx, end := context.WithCancel(t.Context())
	defer end()
	plane := newRealPlane(ctx, t, real.observer)
	real.plane, real.client = plane, plane.cluster.Client
	memory := &memory{model: &model{observer: inMemory.observer}, backups: map[string]*velerov1.Backup{}}
	inMemory.plane, inMemory.client = memory, &memoryClient{memory: memory, live: true}

	random := rand.New(rand.NewPCG(3, 3))
	phases := []velerov1.BackupPhase{"New", "Queued", "ReadyToStart", "InProgress", "Completed"}
	for range 400 {
		name, request := string(rune('a'+random.IntN(4))), random.IntN(9)
		phase, position, held := phases[random.IntN(len(phases))], random.IntN(3), random.IntN(2) == 0
		exists := memory.backups[name] != nil
		for _, s := range sides {
			s.replies = append(s.replies, s.request(t, request, name, exists, func(b *velerov1.Backup) {
				b.Status.Phase, b.Status.QueuePosition = phase, position
				if held && !exists {
					b.Finalizers = []string{testFinalizer}
				}
			}))
		}
		require.Equal(t, inMemory.replies, real.replies)
	}
	real.observer.until(t.Context(), func() bool { return len(real.events) >= len(inMemory.events) })
	real.observer.mu.Lock()
	defer real.observer.mu.Unlock()
	require.Equal(t, inMemory.events, real.events)
	for _, seen := range []string{"conflict", "not found", "written", "unchanged"} {
		require.True(t, slices.Contains(real.replies, seen), "no request was answered with %q", seen)
	}
}

// request makes one request and returns its result.
func (s *side) request(t *testing.T, request int, name string, exists bool, change func(*velerov1.Backup)) string {
	t.Helper()
	key := client.ObjectKey{Namespace: s.name(), Name: name}
	current := func() *velerov1.Backup {
		b := new(velerov1.Backup)
		require.NoError(t, s.client.Get(t.Context(), key, b))
		return b
	}
	switch {
	case request < 2 && !exists:
		b := controllertest.NewBackup(name, change)
		if real, is := s.plane.(*realPlane); is { // by one request, as on the other side
			b.Namespace = real.cluster.Namespace
			require.NoError(t, real.cluster.Create(t.Context(), b))
		} else {
			s.create(b)
		}
		return "created"
	case request == 0 && exists:
		s.remove(current())
		return "deleted"
	case request == 1 && exists: // release it
		b := current()
		released := b.DeepCopy()
		released.Finalizers = nil
		s.write(b, released)
		return "released"
	case request < 4 && exists:
		s.kept[name] = current()
		return "read"
	case request < 6 && exists: // as users write
		b := current()
		changed := b.DeepCopy()
		change(changed)
		s.write(b, changed)
		return fmt.Sprint("written by a user, new version: ", b.ResourceVersion != changed.ResourceVersion)
	case s.kept[name] != nil: // as the queue writes
		b := s.kept[name]
		wanted := b.DeepCopy()
		if request < 8 {
			change(wanted)
		}
		err := s.client.Patch(t.Context(), wanted, client.MergeFromWithOptions(b, client.MergeFromWithOptimisticLock{}))
		switch {
		case apierrors.IsConflict(err):
			return "conflict"
		case apierrors.IsNotFound(err):
			return "not found"
		}
		require.NoError(t, err)
		if wanted.ResourceVersion == b.ResourceVersion {
			return "unchanged"
		}
		s.kept[name] = wanted
		return "written"
	}
	return "nothing"
}
