package pluginhost

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
)

// notices is how many changes are kept in mind while the ones before them are looked at.
const notices = 256

// watch keeps the current generation what the plugin directory holds, until the host closes. The operating system tells
// of changes; every interval it looks without having been told, because not every file system tells of all.
func (h *Host) watch(interval time.Duration) {
	defer h.pool.End()
	life := h.pool.Life()
	notify, err := fsnotify.NewBufferedWatcher(notices)
	if err != nil {
		h.log.Warn("the operating system does not tell of changes in the plugin directory, so they are found late",
			"dir", h.dir, "interval", interval, "error", err)
	} else {
		defer func() { _ = notify.Close() }()
	}
	for life.Err() == nil {
		for first := true; first || h.follow(notify); first = false {
			if err := h.Rescan(life); err != nil && life.Err() == nil {
				h.log.Error("cannot look for plugins", "dir", h.dir, "error", err)
			}
		}
		if !h.awaitChange(life, notify, interval) {
			return
		}
	}
}

// awaitChange returns when something may have changed, false when the host closes.
func (h *Host) awaitChange(life context.Context, notify *fsnotify.Watcher, interval time.Duration) bool {
	var due <-chan time.Time
	if interval > 0 {
		timer := h.clock.NewTimer(interval)
		defer timer.Stop()
		due = timer.C()
	}
	var changes <-chan fsnotify.Event
	var problems <-chan error
	if notify != nil {
		changes, problems = notify.Events, notify.Errors
	}
	select {
	case <-life.Done():
		return false
	case <-due:
	case <-changes:
	case err := <-problems:
		h.log.Debug("changes in the plugin directory were lost, it is looked at as a whole", "error", err)
	}
	for { // one look is for all that has changed until it begins
		select {
		case <-changes:
		default:
			return true
		}
	}
}

// follow watches the folders that the last look has found. It tells whether there is a new one, in which something may
// have changed before it was watched.
func (h *Host) follow(notify *fsnotify.Watcher) bool {
	if notify == nil {
		return false
	}
	h.scan.turn <- struct{}{}
	folders := h.scan.folders
	<-h.scan.turn
	watched := notify.WatchList()
	added := false
	for _, folder := range folders {
		if slices.Contains(watched, folder) {
			continue
		}
		if err := notify.Add(folder); err != nil {
			h.log.Debug("cannot watch a plugin folder", "folder", folder, "error", err)
			continue
		}
		added = true
	}
	for _, folder := range watched {
		if !slices.Contains(folders, filepath.Clean(folder)) {
			_ = notify.Remove(folder)
		}
	}
	return added
}
