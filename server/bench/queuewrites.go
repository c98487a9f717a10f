package main

import (
	"context"
	"errors"
	"time"

	"github.com/cleat-dev/cleat/server/internal/control/backupqueue"
)

// queueWrites2k reports the number of PATCHes of the queue for each backup that it admits while 2,000 are queued,
// counted by its transport. Each time one ends, a new one keeps the length of the queue; the PATCH that enters it is
// not counted. The queue gets no pause, so it writes positions once after the last admission, however fast the machine
// is.
func queueWrites2k(ctx context.Context, cleat string, report func(string, float64)) (err error) {
	s, err := newSite(ctx, cleat)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	c, config, err := s.queueClient()
	if err != nil {
		return err
	}
	w := &wakeSite{client: c, config: config, queued: 2000}
	if err := w.during(ctx, backupqueue.DefaultPace(), w.fill); err != nil {
		return err
	}
	before := w.patches.Load()
	err = w.during(ctx, backupqueue.Pace{Quiet: time.Hour, Late: time.Hour}, func(ctx context.Context) error {
		_, err := w.wakes(ctx)
		return err
	})
	if err != nil {
		return err
	}
	if err := w.during(ctx, backupqueue.Pace{}, func(context.Context) error { return nil }); err != nil {
		return err
	}
	written := w.patches.Load() - before - wakes
	say("with %d queued, the queue has made %d PATCHes for %d backups that it admitted", w.queued, written, wakes)
	report("queue_writes_2k", float64(written)/wakes)
	return nil
}

// during runs the queue at a pace while work runs and until the queue writes nothing more.
func (w *wakeSite) during(ctx context.Context, pace backupqueue.Pace, work func(context.Context) error) (err error) {
	w.pace = pace
	stop, err := w.start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	if err := work(ctx); err != nil {
		return err
	}
	return w.rest(ctx)
}

// rest waits until the queue has written nothing for two seconds.
func (w *wakeSite) rest(ctx context.Context) error {
	for {
		before := w.patches.Load()
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(2 * time.Second):
		}
		if w.patches.Load() == before {
			return nil
		}
	}
}
