package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/node/hostpath"
)

// attemptDelay is the time from the end of an attempt to the next one. What has ended it, such as a drain, may be about
// to take the volume as well.
const attemptDelay = 5 * time.Second

// resume continues a load that is InProgress on this node and has no transfer, because the agent was stopped or killed.
// If all data was moved before, resume completes the load. A pod that moves the data is followed; without one, this
// attempt is lost.
func (m *machine) resume(ctx context.Context, l *load) (time.Duration, error) {
	if _, err := m.Movers.Find(l.spec.mover, hostpath.Volume{}); err != nil {
		return 0, nil //nolint:nilerr // a load of another controller
	}
	if moved, err := m.isMoved(ctx, l); err != nil || moved {
		if err == nil {
			_, err = m.end(ctx, l, m.wasMoved(l))
		}
		return 0, err
	}
	if m.Pods == nil && l.cancelled() {
		_, err := m.end(ctx, l, canceled(l))
		return 0, err
	}
	t := m.slots.retake(l)
	if m.Pods != nil {
		from, _, _ := m.exposed(ctx, l) // a pod that exists does not need it
		m.start(l, from, t, true)
		return soon, nil
	}
	o := interrupted(fmt.Sprintf("the agent of node %s was stopped or killed while it moved the data", m.Node))
	o.at = m.Now()
	m.slots.end(l.GetUID(), t, o)
	return soon, nil
}

// isMoved reports whether all data of a load was moved, and a killed process had begun what follows.
func (m *machine) isMoved(ctx context.Context, l *load) (bool, error) {
	if exposer := m.Exposers[l.name]; exposer != nil {
		return exposer.Moved(ctx, l.copy().Object)
	}
	if l.restore && l.podLabel == "" {
		return m.isSignalled(ctx, l)
	}
	return false, nil
}

// wasMoved is the outcome of a load whose data was moved by a process that was killed.
func (m *machine) wasMoved(l *load) outcome {
	return outcome{phase: velerov1.LoadPhaseCompleted, bytes: max(l.spec.bytes, l.status.Progress.TotalBytes)}
}

// again begins the next attempt of a load whose mover was lost. After the last attempt, or if the volume is not
// accessible any more, the load ends, or its volume is exposed again.
func (m *machine) again(ctx context.Context, l *load, t *transfer, lost outcome) (time.Duration, error) {
	ends := func(o outcome) (time.Duration, error) {
		_, err := m.end(ctx, l, o)
		if err == nil {
			m.free(ctx, l)
		}
		return 0, err
	}
	switch {
	case l.proof.refused != "":
		return ends(failed(refusal(l.proof.refused)))
	case l.cancelled() || l.phase() == velerov1.LoadPhaseCanceling:
		return ends(canceledMoving())
	case l.attempt() > t.attempt: // its write was stored, and the reply was lost
		return m.attempt(ctx, l)
	case !l.mayBeMovedAgain(lost):
		return ends(failed(tooMany(l, lost.message)))
	}
	if wait := attemptDelay - m.Now().Sub(lost.at); wait > 0 {
		return wait, nil
	}
	from, wait, err := m.exposed(ctx, l)
	_ = from.Close()
	if final, is := errors.AsType[*Final](err); is {
		return ends(failed(lost.message + "; " + final.Error()))
	}
	switch {
	case err != nil:
		return 0, err
	case wait != "" && l.podLabel != "":
		err := m.exposeAgain(ctx, l, lost)
		if err == nil {
			m.free(ctx, l)
		}
		return 0, err
	case wait != "":
		gone, err := m.podGone(ctx, l)
		if err != nil {
			return 0, err
		}
		return ends(failed(lost.message + "; " + cmp.Or(gone, wait)))
	}
	after, err := m.write(ctx, l, func(l *load) {
		l.status.Message = next(l, lost.message)
		l.next(lost)
	})
	if err != nil {
		return 0, err
	}
	m.tellLost(l, lost)
	return m.attempt(ctx, after)
}

// attempt starts the attempt of a load that its status has, after one that was lost.
func (m *machine) attempt(ctx context.Context, l *load) (time.Duration, error) {
	from, wait, err := m.exposed(ctx, l)
	if err != nil {
		return 0, err
	}
	t := m.slots.retake(l)
	if wait != "" {
		m.slots.end(l.GetUID(), t, outcome{lost: true, message: wait, at: m.Now()})
		return soon, nil
	}
	m.start(l, from, t, true)
	return progressPeriod, nil
}

// exposeAgain makes a DataUpload or DataDownload New, because its volume is not accessible on its node any more. It is
// admitted like others, by any agent, and its volume is exposed where that is possible.
func (m *machine) exposeAgain(ctx context.Context, l *load, lost outcome) error {
	if !l.mayBeMovedAgain(lost) {
		_, err := m.end(ctx, l, failed(tooMany(l, lost.message)))
		return err
	}
	if exposer := m.Exposers[l.name]; exposer != nil {
		if err := exposer.Withdraw(ctx, l.copy().Object); err != nil {
			return err
		}
	}
	if m.Pods != nil {
		if err := m.Pods.Discard(ctx, l.GetUID(), l.attempt()); err != nil {
			return err
		}
	}
	message := next(l, lost.message)
	_, err := m.write(ctx, l, func(l *load) {
		l.clear(l.Object)
		l.status.Phase, l.status.Message = velerov1.LoadPhaseNew, message
		l.next(lost)
		mark(l.Object, false)
	})
	if err == nil {
		m.tellLost(l, outcome{message: lost.message})
	}
	return err
}

// tooMany returns the message of a load whose last attempt was lost.
func tooMany(l *load, why string) string {
	return fmt.Sprintf("%s was the last; it has ended before all data was moved: %s", l.describeAttempt(), why)
}

// next returns the message of a load whose next attempt begins.
func next(l *load, why string) string {
	return fmt.Sprintf("%s has ended before all data was moved, another one follows: %s", l.describeAttempt(),
		why)
}

// tellLost logs and counts an attempt that was lost, and records an event.
func (m *machine) tellLost(l *load, lost outcome) {
	m.Log.Warn("an attempt to move the data of a load was lost", "kind", l.name, "name", l.GetName(),
		"attempt", l.attempt(), "error", lost.message)
	m.Metrics.lose(l, lost.memory)
	if m.Events != nil {
		run.Warn(m.Events, l.Object, "AttemptLost", "Move", next(l, lost.message))
	}
}
