package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cleat-dev/cleat/server/test/roundtrip"
	"github.com/cleat-dev/cleat/server/test/world"
)

// restoreSpec returns the world of the restore benchmarks: 6,000 objects that no controller changes.
func restoreSpec(prefix string) world.Spec {
	return world.Spec{Prefix: prefix, Namespaces: 10, ConfigMaps: 0, Secrets: 0}
}

// plain returns the objects of the restore benchmarks: config maps, secrets, roles and bindings in ten namespaces.
func plain(prefix string) []world.Object {
	return world.Plain(restoreSpec(prefix), 600)
}

// restoreOverLimit reports the time from the creation of a Restore to Completed for 6,000 objects, divided by the time
// of a bare program that creates the same objects with the best number of workers. Each run restores into namespaces of
// its own.
func restoreOverLimit(ctx context.Context, s *site, report func(string, float64)) (err error) {
	server, err := s.prepareRestore(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()

	workers, err := s.bestWorkers(ctx)
	if err != nil {
		return err
	}
	if _, err := s.restoreInto(ctx, "warm"); err != nil {
		return err
	}
	var ratios []float64
	for run := range runs {
		limit, err := s.bareRestore(ctx, fmt.Sprintf("bare%d", run), workers)
		if err != nil {
			return err
		}
		ours, err := s.restoreInto(ctx, fmt.Sprintf("run%d", run))
		if err != nil {
			return err
		}
		ratios = append(ratios, ours.Seconds()/limit.Seconds())
		say("restore %.2fs, bare with %d workers %.2fs, ratio %.2f", ours.Seconds(), workers, limit.Seconds(), ratios[run])
	}
	report("restore_over_limit", median(ratios))
	return nil
}

// prepareRestore creates the objects, starts the server and backs them up as "source".
func (s *site) prepareRestore(ctx context.Context) (*roundtrip.Server, error) {
	say("creating the objects to restore")
	if err := s.client.Create(ctx, plain("source"), new(atomic.Int64)); err != nil {
		return nil, err
	}
	server, err := s.Serve(ctx, s.client)
	if err != nil {
		return nil, err
	}
	if _, _, err := s.backup(ctx, "source", map[string]any{"includedNamespaces": []any{"source-*"}}); err != nil {
		return nil, errors.Join(err, server.Stop())
	}
	return server, nil
}

// restoreInto restores the backup "source" into namespaces that begin with prefix.
func (s *site) restoreInto(ctx context.Context, prefix string) (time.Duration, error) {
	return s.restoreFrom(ctx, "source", prefix)
}

// restoreFrom restores a backup of the world of the same name into namespaces that begin with prefix.
func (s *site) restoreFrom(ctx context.Context, backup, prefix string) (time.Duration, error) {
	mapping := map[string]any{}
	from, to := restoreSpec(backup), restoreSpec(prefix)
	for n := range from.Namespaces {
		mapping[from.Namespace(n)] = to.Namespace(n)
	}
	took, _, err := s.restore(ctx, prefix, map[string]any{"backupName": backup, "namespaceMapping": mapping})
	return took, err
}

// bareRestore creates the objects in namespaces that begin with prefix.
func (s *site) bareRestore(ctx context.Context, prefix string, workers int) (time.Duration, error) {
	objects := plain(prefix)
	began := time.Now()
	err := s.client.CreateBare(ctx, objects, workers)
	return time.Since(began), err
}

// bestWorkers returns the fastest of a few numbers of workers.
func (s *site) bestWorkers(ctx context.Context) (int, error) {
	best, fastest := 0, time.Duration(0)
	for _, workers := range []int{4, 8, 16, 32, 64} {
		took, err := s.bareRestore(ctx, fmt.Sprintf("try%d", workers), workers)
		if err != nil {
			return 0, err
		}
		say("bare with %d workers %.2fs", workers, took.Seconds())
		if best == 0 || took < fastest {
			best, fastest = workers, took
		}
	}
	return best, nil
}
