package pluginhost

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/calls"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/process"
	"github.com/cleat-dev/cleat/versioning"
)

// question represents a source whose plugins are being listed.
type question struct {
	from     *source
	answered chan struct{} // closed when the reply is in from; from must not be read before
	cancel   context.CancelFunc
}

// ask lists the plugins of a source, as soon as there is a slot.
func (s *scanner) ask(from *source) *question {
	ctx, cancel := context.WithCancel(s.pool.Life())
	q := &question{from: from, answered: make(chan struct{}), cancel: cancel}
	if from.err == nil && !s.pool.Begin() {
		from.err = process.ErrClosed
	}
	if from.err != nil {
		cancel()
		close(q.answered)
		return q
	}
	go func() {
		defer s.pool.End()
		defer close(q.answered)
		defer cancel()
		s.slots <- struct{}{}
		defer func() { <-s.slots }()
		if from.err = s.describeAlive(ctx, from); from.err != nil {
			from.failures++
			from.failed = s.clock.Now()
		}
		if from.err != nil || from.offer.PerRun {
			from.retire() // it serves no run
		}
	}()
	return q
}

// describeAlive is describe, again each time that the process dies meanwhile, as often as its supervisor starts it in a
// row.
func (s *scanner) describeAlive(ctx context.Context, from *source) error {
	err := s.describe(ctx, from)
	for errors.As(err, new(*calls.DiedError)) && ctx.Err() == nil {
		again := s.describe(ctx, from)
		if errors.As(again, new(*calls.OutOfServiceError)) {
			return err
		}
		err = again
	}
	return err
}

// describe lists the plugins of a source, and probes which of their kinds it does not serve.
func (s *scanner) describe(ctx context.Context, from *source) error {
	if from.supervisor != nil {
		if err := from.supervisor.Ready(ctx, ""); err != nil {
			return err
		}
	}
	offer, err := from.asked.get(ctx, from.process)
	if err != nil {
		return err
	}
	if from.trust != nil {
		if err := from.trust.CheckProvides(from.command, offer.Listed()); err != nil {
			return err
		}
	}
	from.offer = offer
	from.offer.PerRun = offer.PerRun && from.supervisor != nil
	if from.supervisor != nil {
		from.unserved = s.unserved(ctx, from)
	}
	return nil
}

// unserved returns the kinds, as on the wire, that a source offers but does not serve.
func (s *scanner) unserved(ctx context.Context, from *source) []string {
	if s.query > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.query)
		defer cancel()
	}
	var absent, asked []string
	for _, plugin := range from.offer.Plugins {
		version, known := versioning.Lookup(s.known, plugin.Kind)
		if !known || slices.Contains(asked, plugin.Kind) {
			continue
		}
		asked = append(asked, plugin.Kind)
		if !version.Served(ctx, from.process) {
			absent = append(absent, plugin.Kind)
		}
	}
	return absent
}

// abandon cancels a question whose reply is not needed any more.
func (q *question) abandon() {
	q.cancel()
	if q.from.supervisor != nil {
		q.from.supervisor.Abandon()
	}
}

func (q *question) isAnswered() bool {
	select {
	case <-q.answered:
		return true
	default:
		return false
	}
}

// await waits until all questions are answered or patience has passed; 0 means no limit. The error is the error of ctx.
func await(ctx context.Context, questions iter.Seq[*question], patience time.Duration) error {
	var over <-chan time.Time
	if patience > 0 {
		timer := time.NewTimer(patience)
		defer timer.Stop()
		over = timer.C
	}
	for q := range questions {
		select {
		case <-q.answered:
		case <-over:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("ask plugins what they offer: %w", context.Cause(ctx))
		}
	}
	return nil
}
