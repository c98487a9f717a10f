package directory

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
	"k8s.io/utils/clock"
)

// maxEvents is how many changes are kept while a look is under way.
const maxEvents = 256

// Watch calls look whenever something may have changed in the directory, until ctx ends. The operating system reports
// changes; look is also called every interval, unless that is negative, because not every file system reports all of
// them.
func (d *Directory) Watch(ctx context.Context, clock clock.WithDelayedExecution, interval time.Duration, look func()) {
	events, err := fsnotify.NewBufferedWatcher(maxEvents)
	if err != nil {
		d.log.Warn("the operating system does not report changes in the plugin directory, so they are found late",
			"dir", d.path, "interval", interval, "error", err)
	} else {
		defer func() { _ = events.Close() }()
	}
	for ctx.Err() == nil {
		look()
		for d.follow(events) { // something may have changed in a folder before it was watched
			look()
		}
		if !d.awaitChange(ctx, clock, events, interval) {
			return
		}
	}
}

// awaitChange returns when something may have changed, false when ctx has ended.
func (d *Directory) awaitChange(
	ctx context.Context, clock clock.WithDelayedExecution, events *fsnotify.Watcher, interval time.Duration,
) bool {
	var due <-chan time.Time
	if interval > 0 {
		timer := clock.NewTimer(interval)
		defer timer.Stop()
		due = timer.C()
	}
	var changes <-chan fsnotify.Event
	var problems <-chan error
	if events != nil {
		changes, problems = events.Events, events.Errors
	}
	select {
	case <-ctx.Done():
		return false
	case <-due:
	case <-changes:
	case err := <-problems:
		d.log.Debug("changes in the plugin directory were lost, so all of it is looked at", "error", err)
	}
	for { // one look covers all changes before it
		select {
		case <-changes:
		default:
			return true
		}
	}
}

// follow watches the folders that the last look has found. It reports whether there is a new one.
func (d *Directory) follow(events *fsnotify.Watcher) (added bool) {
	if events == nil {
		return false
	}
	d.mu.Lock()
	folders := d.folders
	d.mu.Unlock()
	watched := events.WatchList()
	for _, folder := range folders {
		if slices.Contains(watched, folder) {
			continue
		}
		if err := events.Add(folder); err != nil {
			d.log.Debug("cannot watch a plugin folder", "folder", folder, "error", err)
			continue
		}
		added = true
	}
	for _, folder := range watched {
		if !slices.Contains(folders, filepath.Clean(folder)) {
			_ = events.Remove(folder)
		}
	}
	return added
}
