package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/server/test/roundtrip"
)

// gc10k reports the requests to the API server for each of 10,000 expired backups that are deleted, including their
// files, and the time of a small backup meanwhile, divided by its time on an idle server.
func gc10k(ctx context.Context, cleat string, report func(string, float64)) (err error) {
	b, err := newFullBucket(ctx, cleat)
	if b != nil && b.site != nil {
		defer func() { err = errors.Join(err, b.close()) }()
	}
	if err != nil {
		return err
	}
	var idle, busy float64
	_, err = b.during(ctx, func() error {
		if _, err := b.sync(ctx, "1h"); err != nil {
			return err
		}
		idle, err = b.smallBackups(ctx, "idle")
		return err
	})
	if err != nil {
		return err
	}
	server, err := b.Serve(ctx, b.client)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	began := time.Now()
	before, err := b.left(ctx)
	if err != nil {
		return err
	}
	left := before
	for left > 2*runs {
		if left < inBucket*9/10 && busy == 0 {
			if busy, err = b.smallBackups(ctx, "busy"); err != nil {
				return err
			}
		}
		time.Sleep(time.Second)
		if left, err = b.left(ctx); err != nil {
			return err
		}
	}
	ended := time.Now()
	calls, verbs, err := callsBetween(b.audit, began, ended)
	if err != nil {
		return err
	}
	deleted := before - runs // except the idle ones
	say("%d backups deleted in %.0fs with %d calls: %v", deleted, ended.Sub(began).Seconds(), calls, verbs)
	say("a small backup takes %.2fs meanwhile, %.2fs otherwise", busy, idle)
	report("gc_10k", float64(calls)/float64(deleted))
	report("gc_10k_backup", busy/idle)
	return nil
}

// smallBackups makes some backups, and returns the median of the seconds that they take.
func (b *fullBucket) smallBackups(ctx context.Context, prefix string) (float64, error) {
	var took []float64
	for run := range runs {
		one, _, err := b.backup(ctx, fmt.Sprintf("%s-%d", prefix, run), map[string]any{
			"includedNamespaces": []any{"default"}, "includedResources": []any{"configmaps"},
		})
		if err != nil {
			return 0, err
		}
		took = append(took, one.Seconds())
	}
	return median(took), nil
}

// left returns the number of Backups in the cluster.
func (b *fullBucket) left(ctx context.Context) (int, error) {
	backups := schema.GroupVersionResource{Group: "velero.io", Version: "v1", Resource: "backups"}
	list, err := b.dynamic.Resource(backups).Namespace(roundtrip.Namespace).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return 0, fmt.Errorf("count the Backups: %w", err)
	}
	n := len(list.Items)
	if rest := list.GetRemainingItemCount(); rest != nil {
		n += int(*rest)
	}
	return n, nil
}
