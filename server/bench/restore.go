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

// perNamespace is the number of objects in each of their ten namespaces, and manyPerNamespace the one of a restore
// that takes longer.
const (
	perNamespace     = 600
	manyPerNamespace = 3000
)

// plain returns objects of the restore benchmarks: config maps, secrets, roles and bindings in ten namespaces.
func plain(prefix string, perNamespace int) []world.Object {
	return world.Plain(restoreSpec(prefix), perNamespace)
}

// restoreOverLimit reports the time from the creation of a Restore to Completed for 6,000 objects, divided by the time
// of a bare program that creates the same objects with the best number of workers, and the same for 30,000 objects.
// Each run restores into namespaces of its own. The sides take turns, because an API server with more objects is
// slower.
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
	if _, err := s.restoreFrom(ctx, "source", "warm"); err != nil {
		return err
	}
	ratio, err := s.overBare(ctx, "source", perNamespace, 8, workers)
	if err != nil {
		return err
	}
	report("restore_over_limit", ratio)
	say("creating %d objects", len(plain("large", manyPerNamespace)))
	if err := s.client.CreateBare(ctx, plain("large", manyPerNamespace), workers); err != nil {
		return err
	}
	if _, err := s.backUpOf(ctx, "large"); err != nil {
		return err
	}
	if ratio, err = s.overBare(ctx, "large", manyPerNamespace, 4, workers); err != nil {
		return err
	}
	report("restore_over_limit_30k", ratio)
	return nil
}

// overBare returns the median of the times of restores of a backup over those of bare creations.
func (s *site) overBare(ctx context.Context, backup string, perNamespace, pairs, workers int) (float64, error) {
	var ratios []float64
	for pair := range pairs {
		var ours, limit time.Duration
		sides := []func() error{
			func() (err error) {
				limit, err = s.bareRestore(ctx, fmt.Sprintf("%s-bare%d", backup, pair), perNamespace, workers)
				return err
			},
			func() (err error) {
				ours, err = s.restoreFrom(ctx, backup, fmt.Sprintf("%s-run%d", backup, pair))
				return err
			},
		}
		for i := range sides {
			if err := sides[(pair+i)%2](); err != nil {
				return 0, err
			}
		}
		ratios = append(ratios, ours.Seconds()/limit.Seconds())
		say("restore %.2fs, bare with %d workers %.2fs, ratio %.2f", ours.Seconds(), workers, limit.Seconds(), ratios[pair])
	}
	return median(ratios), nil
}

// prepareRestore creates the objects, starts the server and backs them up as "source".
func (s *site) prepareRestore(ctx context.Context) (*roundtrip.Server, error) {
	say("creating the objects to restore")
	if err := s.client.Create(ctx, plain("source", perNamespace), new(atomic.Int64)); err != nil {
		return nil, err
	}
	server, err := s.Serve(ctx, s.client)
	if err != nil {
		return nil, err
	}
	if _, err := s.backUpOf(ctx, "source"); err != nil {
		return nil, errors.Join(err, server.Stop())
	}
	return server, nil
}

// backUpOf backs up the namespaces that begin with a prefix, under its name.
func (s *site) backUpOf(ctx context.Context, prefix string) (time.Duration, error) {
	took, _, err := s.backup(ctx, prefix, map[string]any{"includedNamespaces": []any{prefix + "-*"}})
	return took, err
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
func (s *site) bareRestore(ctx context.Context, prefix string, perNamespace, workers int) (time.Duration, error) {
	objects := plain(prefix, perNamespace)
	began := time.Now()
	err := s.client.CreateBare(ctx, objects, workers)
	return time.Since(began), err
}

// bestWorkers returns the fastest of a few numbers of workers.
func (s *site) bestWorkers(ctx context.Context) (int, error) {
	best, fastest := 0, time.Duration(0)
	for _, workers := range []int{4, 8, 16, 32, 64} {
		took, err := s.bareRestore(ctx, fmt.Sprintf("try%d", workers), perNamespace, workers)
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
