package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/cleat-dev/cleat/framework/operations"
)

const (
	operationsOfOne = 200
	lengthOfOne     = 3 * time.Second
)

// operationsOverWork reports the time from the first of 200 operations of a backup to its phase Completed, divided by
// the time of their bare work: from the first start to the last end in the records of the plugin. Each operation takes
// three seconds, all run at once.
func operationsOverWork(ctx context.Context, s *site, report func(string, float64)) (err error) {
	if err := build(ctx, "waiter", filepath.Join(s.PluginDir, "waiter")); err != nil {
		return err
	}
	if err := s.makeWaits(ctx, "waits", operationsOfOne, lengthOfOne); err != nil {
		return err
	}
	server, err := s.Serve(ctx, s.client)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	store, err := operations.OpenDir(filepath.Join(s.WorkDir, "plugin-state", filepath.FromSlash(waiterName)))
	if err != nil {
		return err
	}
	var ratios []float64
	for n := range runs + 1 {
		began := time.Now()
		_, _, err := s.backup(ctx, fmt.Sprint("run-", n), map[string]any{"includedNamespaces": []any{"waits"},
			"includedResources": []any{"configmaps"}})
		if err != nil {
			return err
		}
		completed := time.Now()
		first, last, err := workSince(ctx, store, began)
		if err != nil {
			return err
		}
		if n == 0 {
			continue // warm-up
		}
		ratios = append(ratios, completed.Sub(first).Seconds()/last.Sub(first).Seconds())
		say("%d operations of %s: Completed %.3fs after the first start, the last one ended after %.3fs, ratio %.3f",
			operationsOfOne, lengthOfOne, completed.Sub(first).Seconds(), last.Sub(first).Seconds(), ratios[n-1])
	}
	report("operations_over_work", median(ratios))
	return nil
}

// workSince returns the time of the first start after began, and the time of the last end.
func workSince(ctx context.Context, store operations.Store, began time.Time) (first, last time.Time, err error) {
	ids, err := store.List(ctx)
	if err != nil {
		return first, last, err
	}
	found := 0
	for _, id := range ids {
		o, err := store.Get(ctx, id)
		if err != nil {
			return first, last, err
		}
		if o.Progress.Started.Before(began) {
			continue
		}
		found++
		if first.IsZero() || o.Progress.Started.Before(first) {
			first = o.Progress.Started
		}
		if o.Progress.Updated.After(last) {
			last = o.Progress.Updated
		}
	}
	if found != operationsOfOne {
		err = fmt.Errorf("the plugin was asked for %d operations, want %d", found, operationsOfOne)
	}
	return first, last, err
}
