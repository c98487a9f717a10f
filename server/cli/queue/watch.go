package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/status"
	"github.com/cleat-dev/cleat/server/internal/spec/queue"
)

// queueView shows the queue while it changes.
type queueView interface {
	// change shows a change of a Backup. before is nil for a new Backup, after for a deleted one.
	change(before, after *velerov1.Backup) error
	// server shows the report of the server about its queue.
	server(answer status.QueueServer)
	// refresh is called every refreshPause.
	refresh(now time.Time) error
	// note shows a message.
	note(text string)
	end() error
}

// refreshPause is the time between two updates of a terminal.
const refreshPause = 100 * time.Millisecond

// retryPause is the time between two attempts to reach the API server.
const retryPause = 500 * time.Millisecond

// errWatchEnded reports that the API server ended a watch, as it does every few minutes.
var errWatchEnded = errors.New("the watch has ended")

// watchQueue shows the queue in view until ctx ends, which is not an error. After the beginning it tolerates an API
// server that is away for a while.
func watchQueue(ctx context.Context, cluster *command.Cluster, view queueView, timeout time.Duration) error {
	known := map[string]*velerov1.Backup{}
	asking, stop := context.WithCancel(ctx)
	defer stop()
	server := make(chan status.QueueServer)
	go keepAsking(asking, cluster, timeout, server)
	for begun, noted := false, false; ; {
		err := followQueue(ctx, cluster, known, server, view, &begun)
		switch {
		case ctx.Err() != nil:
			return view.end()
		case errors.Is(err, errWatchEnded):
			noted = false
		case !begun, isViewError(err), apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
			return err
		case !noted:
			view.note(fmt.Sprintf("the API server cannot be reached; the display continues when it can: %v", err))
			noted = true
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryPause):
		}
	}
}

// viewError is the error of a view.
type viewError struct{ error }

func (e viewError) Unwrap() error { return e.error }

func isViewError(err error) bool {
	var shown viewError
	return errors.As(err, &shown)
}

// followQueue shows all Backups, and then each change, until the watch or ctx ends. It sets begun after the first list.
func followQueue(ctx context.Context, cluster *command.Cluster, known map[string]*velerov1.Backup,
	server <-chan status.QueueServer, view queueView, begun *bool,
) error {
	var list velerov1.BackupList
	if err := cluster.List(ctx, &list, client.InNamespace(cluster.Namespace)); err != nil {
		return fmt.Errorf("list the backups: %w", err)
	}
	if err := relist(known, list.Items, view); err != nil {
		return viewError{err}
	}
	*begun = true
	watcher, err := cluster.Watch(ctx, &velerov1.BackupList{}, client.InNamespace(cluster.Namespace),
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}})
	if err != nil {
		return fmt.Errorf("watch the backups: %w", err)
	}
	defer watcher.Stop()
	tick := time.NewTicker(refreshPause)
	defer tick.Stop()
	if err := view.refresh(time.Now()); err != nil {
		return viewError{err}
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case answer := <-server:
			view.server(answer)
		case now := <-tick.C:
			if err := view.refresh(now); err != nil {
				return viewError{err}
			}
		case event, open := <-watcher.ResultChan():
			if !open {
				return errWatchEnded
			}
			if err := apply(known, event, view); err != nil {
				return err
			}
		}
	}
}

// apply applies an event of the watch to known.
func apply(known map[string]*velerov1.Backup, event watch.Event, view queueView) error {
	if event.Type == watch.Error {
		err := apierrors.FromObject(event.Object)
		if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			return errWatchEnded
		}
		return err
	}
	b, ok := event.Object.(*velerov1.Backup)
	if !ok {
		return nil // a bookmark
	}
	before := known[b.Name]
	var err error
	switch event.Type {
	case watch.Added, watch.Modified:
		known[b.Name] = b
		err = view.change(before, b)
	case watch.Deleted:
		delete(known, b.Name)
		err = view.change(cmp.Or(before, b), nil)
	default:
	}
	if err != nil {
		return viewError{err}
	}
	return nil
}

// relist replaces known by all Backups, and shows the differences: first the queue in its order.
func relist(known map[string]*velerov1.Backup, items []velerov1.Backup, view queueView) error {
	backups := make(map[string]*velerov1.Backup, len(items))
	for i := range items {
		backups[items[i].Name] = &items[i]
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		before := known[name]
		if now := backups[name]; now != nil && now.UID == before.UID {
			continue
		}
		delete(known, name)
		if err := view.change(before, nil); err != nil {
			return err
		}
	}
	line := queue.NewLine(slices.Collect(maps.Values(backups)))
	others := slices.SortedFunc(maps.Values(backups),
		func(a, b *velerov1.Backup) int { return cmp.Compare(a.Name, b.Name) })
	for _, b := range slices.Concat(line.Running, line.Ready, line.Queued, others) {
		before := known[b.Name]
		if before == b {
			continue // shown as a part of the queue
		}
		known[b.Name] = b
		if err := view.change(before, b); err != nil {
			return err
		}
	}
	return nil
}

// newQueueView returns a view that draws a table on a terminal, and prints a line for each change elsewhere.
func newQueueView(out, notes io.Writer, output string) (queueView, error) {
	switch output {
	case "json":
		return &changes{notes: notes, write: jsonChanges(out), now: time.Now}, nil
	case "table":
		if terminal, ok := command.ScreenOn(out); ok {
			return &screen{screen: terminal, backups: map[string]*velerov1.Backup{}}, nil
		}
		return &changes{notes: notes, write: textChanges(out), now: time.Now}, nil
	default:
		return nil, fmt.Errorf("--output %q with --watch: want table or json", output)
	}
}
