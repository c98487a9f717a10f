package pluginhost

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/server/pluginhost/process"
	"github.com/cleat-dev/cleat/versioning"
)

// question is a source that is asked what it offers.
type question struct {
	from     *source
	answered chan struct{} // closed when from has its answer, which nobody reads before
	cancel   context.CancelFunc
}

// abandon gives up a question whose answer nobody wants any more.
func (q *question) abandon() {
	q.cancel()
	if q.from.supervisor != nil {
		q.from.supervisor.Abandon()
	}
}

// isAnswered tells without waiting.
func (q *question) isAnswered() bool {
	select {
	case <-q.answered:
		return true
	default:
		return false
	}
}

// beginToAsk asks a source, when its turn comes: few are asked at a time.
func (h *Host) beginToAsk(from *source) *question {
	ctx, cancel := context.WithCancel(h.pool.Life())
	q := &question{from: from, answered: make(chan struct{}), cancel: cancel}
	if from.err == nil && !h.pool.Begin() {
		from.err = process.ErrClosed
	}
	if from.err != nil {
		cancel()
		close(q.answered)
		return q
	}
	go func() {
		defer h.pool.End()
		defer close(q.answered)
		defer cancel()
		h.places <- struct{}{}
		defer func() { <-h.places }()
		from.offer, from.unserved, from.err = h.ask(ctx, from)
		if from.err != nil {
			from.retire()
		}
	}()
	return q
}

// await waits until the questions are answered or patience, unless it is 0, is over. The error is that of ctx.
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

// ask is what a source says that it offers, and which of the kinds that it names it does not serve.
func (h *Host) ask(ctx context.Context, from *source) (versioning.Description, []string, error) {
	if from.supervisor == nil {
		offer, err := versioning.Describe(ctx, h.services)
		return offer, nil, err
	}
	if err := from.supervisor.Ready(ctx, ""); err != nil {
		return versioning.Description{}, nil, err
	}
	process := from.supervisor.Conn("", nil)
	offer, err := versioning.Describe(ctx, process)
	if err != nil {
		return versioning.Description{}, nil, err
	}
	if from.trust != nil {
		if err := from.trust.checkProvides(from.command, offer.Listed()); err != nil {
			return versioning.Description{}, nil, err
		}
	}
	return offer, h.unserved(ctx, process, offer), nil
}

// unserved are the names on the wire of the kinds that are offered but not there.
func (h *Host) unserved(ctx context.Context, process grpc.ClientConnInterface, offer versioning.Description) []string {
	if h.deadlines.Query > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, h.deadlines.Query)
		defer cancel()
	}
	var absent, asked []string
	for _, plugin := range offer.Plugins {
		version, known := versioning.Lookup(h.kinds, plugin.Kind)
		if !known || slices.Contains(asked, plugin.Kind) {
			continue
		}
		asked = append(asked, plugin.Kind)
		if !version.Served(ctx, process) {
			absent = append(absent, plugin.Kind)
		}
	}
	return absent
}
