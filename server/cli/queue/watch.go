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
	"github.com/cleat-dev/cleat/server/queue"
	"github.com/cleat-dev/cleat/server/status"
)

// queueView shows the queue while it changes.
type queueView interface {
	// change tells how a Backup is now, and how it was: nil when it was not known before, or is gone.
	change(before, after *velerov1.Backup) error
	// server tells what the server says of its queue.
	server(told status.QueueServer)
	// refresh is called every refreshPause, for what there is to show meanwhile.
	refresh(now time.Time) error
	// note tells the user something else.
	note(text string)
	end() error
}

// refreshPause is the time between two pictures on a terminal.
const refreshPause = 100 * time.Millisecond

// retryPause is the time between two attempts to reach the API server.
const retryPause = 500 * time.Millisecond

// errWatchEnded is that the API server has ended a watch, as it does every few minutes.
var errWatchEnded = errors.New("the watch has ended")

// watchQueue shows the queue in view until ctx ends, which is no error. Once it has begun, the API server may be away for
// a while.
func watchQueue(ctx context.Context, s *command.Cluster, view queueView, timeout time.Duration) error {
	known := map[string]*velerov1.Backup{}
	asking, stop := context.WithCancel(ctx)
	defer stop()
	server := make(chan status.QueueServer)
	go keepAsking(asking, s, timeout, server)
	for begun, told := false, false; ; {
		err := followQueue(ctx, s, known, server, view, &begun)
		switch {
		case ctx.Err() != nil:
			return view.end()
		case errors.Is(err, errWatchEnded):
			told = false
		case !begun, isViewError(err), apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
			return err
		case !told:
			view.note(fmt.Sprintf("the API server cannot be asked now, this goes on when it can: %v", err))
			told = true
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryPause):
		}
	}
}

// viewError is that what is seen cannot be shown.
type viewError struct{ error }

func (e viewError) Unwrap() error { return e.error }

func isViewError(err error) bool {
	var shown viewError
	return errors.As(err, &shown)
}

// followQueue looks at all Backups, and then at each that changes, until the watch or ctx ends.
func followQueue(ctx context.Context, s *command.Cluster, known map[string]*velerov1.Backup, server <-chan status.QueueServer, view queueView, begun *bool,
) error {
	var list velerov1.BackupList
	if err := s.List(ctx, &list, client.InNamespace(s.Namespace)); err != nil {
		return fmt.Errorf("list the backups: %w", err)
	}
	if err := relist(known, list.Items, view); err != nil {
		return viewError{err}
	}
	*begun = true
	watcher, err := s.Watch(ctx, &velerov1.BackupList{}, client.InNamespace(s.Namespace), &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}})
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
		case told := <-server:
			view.server(told)
		case now := <-tick.C:
			if err := view.refresh(now); err != nil {
				return viewError{err}
			}
		case event, open := <-watcher.ResultChan():
			if !open {
				return errWatchEnded
			}
			if err := happened(known, event, view); err != nil {
				return err
			}
		}
	}
}

// happened takes an event of the watch over to known.
func happened(known map[string]*velerov1.Backup, event watch.Event, view queueView) error {
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

// relist takes all Backups over to known, first those of the line in its order.
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
	others := slices.SortedFunc(maps.Values(backups), func(a, b *velerov1.Backup) int { return cmp.Compare(a.Name, b.Name) })
	for _, b := range slices.Concat(line.Running, line.Ready, line.Queued, others) {
		before := known[b.Name]
		if before == b {
			continue // it is in the line
		}
		known[b.Name] = b
		if err := view.change(before, b); err != nil {
			return err
		}
	}
	return nil
}

// newQueueView is a table on a terminal, and a line for each change anywhere else.
func newQueueView(out, notes io.Writer, output string) (queueView, error) {
	switch output {
	case "json":
		return &changes{notes: notes, write: jsonChanges(out), now: time.Now}, nil
	case "table":
		if file, ok := terminalOf(out); ok {
			return &screen{w: out, size: file.size, backups: map[string]*velerov1.Backup{}}, nil
		}
		return &changes{notes: notes, write: textChanges(out), now: time.Now}, nil
	default:
		return nil, fmt.Errorf("--output %q with --watch: want table or json", output)
	}
}
