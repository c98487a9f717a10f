package pluginhost

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"

	"github.com/cleat-dev/cleat/server/pluginhost/process"
)

const (
	// settleTime is how long a file must have been the same before it is taken for finished.
	settleTime = 50 * time.Millisecond
	// lookPause is the longest pause between two looks at a file that is not finished.
	lookPause = 2 * time.Second
	// patience is how long one look waits for plugins to say what they offer. Those that take longer do not hold up the
	// others: they are for a later look.
	patience = 2 * time.Second
)

// scanner is what is remembered from one look at the plugin directory to the next. Whoever uses it holds its turn.
type scanner struct {
	turn      chan struct{}
	looks     map[string]look      // at files that were not finished, by path
	questions map[string]*question // to files that are not in the current generation yet, by path
	gone      map[string]time.Time // since when files of the current generation are not there
	omitted   map[string]string    // as found last
	missing   bool
	folders   []string
}

// look is what a file was, and since when.
type look struct {
	identity process.Identity
	since    time.Time
}

func newScanner() scanner {
	return scanner{
		turn: make(chan struct{}, 1), looks: map[string]look{}, questions: map[string]*question{}, gone: map[string]time.Time{},
	}
}

// Rescan looks at the plugin directory, takes what was added, replaced or removed into use for sessions that begin from
// then on, and returns when that is done. Files that somebody still writes are waited for, as long as ctx allows. The
// host does the same by itself when it is told of a change, so this is for those who do not want to wait for that.
func (h *Host) Rescan(ctx context.Context) error {
	select {
	case h.scan.turn <- struct{}{}:
		defer func() { <-h.scan.turn }()
	case <-ctx.Done():
		return fmt.Errorf("look for plugins: %w", context.Cause(ctx))
	}
	for pause := settleTime; ; pause = min(2*pause, lookPause) {
		unfinished, err := h.lookAgain(ctx, patience)
		if err != nil || !unfinished {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("look for plugins: %w", context.Cause(ctx))
		}
	}
}

// lookAgain takes one look and waits for what it has to ask, for as long as patience, unless that is 0. It tells whether
// there is something that is not finished.
func (h *Host) lookAgain(ctx context.Context, patience time.Duration) (unfinished bool, err error) {
	if h.dir == "" {
		return false, nil
	}
	seen, err := findBinaries(h.dir)
	if err != nil {
		return false, err
	}
	h.logOmitted(seen)
	lockProblem, lockUnfinished := h.readLock(time.Now())
	h.scan.folders = slices.Compact(slices.Sorted(slices.Values(append(seen.folders, h.lockFile.folders()...))))
	if lockUnfinished {
		return true, nil // files may be there that only the next one has
	}

	current := h.now()
	binaries := slices.DeleteFunc(slices.Clone(current.sources[h.builtInSources:]), func(s *source) bool { return s.missing })
	last := map[string]*source{} // by path
	for _, from := range binaries {
		last[from.command] = from
	}
	files := h.withVanished(seen.binaries, binaries, time.Now())
	sources, unfinished := h.sourcesOf(files, last)
	if err := await(ctx, maps.Values(h.scan.questions), patience); err != nil {
		return false, err
	}
	if h.pool.Life().Err() != nil { // nobody could answer
		return false, process.ErrClosed
	}
	next := slices.Clone(current.sources[:h.builtInSources])
	for _, from := range sources {
		if !h.ready(from) {
			unfinished = true
			from = last[from.command]
		}
		if from != nil {
			next = append(next, from)
		}
	}
	for path, reason := range h.trust.missing(files, seen.omitted) {
		next = append(next, missing(path, reason, current.sources))
	}
	if lockProblem != "" {
		next = append(next, missing(h.lockFile.path, lockProblem, current.sources))
	}
	if !slices.Equal(next, current.sources) {
		h.publish(next)
	}
	return unfinished || len(h.scan.gone) > 0, nil
}

// sourcesOf are the sources of files in their order. Where the new file is not finished it is the last source, if there
// is one. Those that are new are asked from now on.
func (h *Host) sourcesOf(files []located, last map[string]*source) (all []*source, unfinished bool) {
	now := time.Now()
	questions := h.scan.questions
	h.scan.questions = map[string]*question{}
	for _, file := range files {
		from, asked := last[file.path], questions[file.path]
		switch {
		case asked != nil && asked.from.identity.SameContent(file.identity) && asked.from.trust == h.trust:
			from = asked.from
			h.scan.questions[file.path] = asked
			delete(questions, file.path)
		case from != nil && from.still(file) && !h.trust.reconsiders(from):
			delete(h.scan.looks, file.path)
		case h.scan.settled(file, now):
			delete(h.scan.looks, file.path)
			next := h.binary(file.path, h.args, false, file.identity)
			if errors.Is(next.err, fs.ErrNotExist) { // it was taken away since it was found, as the next look will see
				unfinished = true
				break
			}
			from = next
			h.scan.questions[file.path] = h.beginToAsk(from)
		default:
			unfinished = true
		}
		if from != nil {
			all = append(all, from)
		}
	}
	for _, q := range questions { // the file is another one by now, or gone
		q.abandon()
	}
	return all, unfinished
}

// ready tells whether a source has said what it offers. One whose file turned out to be unfinished is forgotten.
func (h *Host) ready(from *source) bool {
	q := h.scan.questions[from.command]
	if q == nil || q.from != from {
		return true
	}
	if !q.isAnswered() {
		return false
	}
	delete(h.scan.questions, from.command)
	if from.unfinished() {
		_ = from.binary.Close()
		return false
	}
	return true
}

// missing is the source for what is no plugin file, for a reason; the current one if there is one.
func missing(path, reason string, current []*source) *source {
	at := slices.IndexFunc(current, func(s *source) bool { return s.missing && s.command == path && s.err.Error() == reason })
	if at >= 0 {
		return current[at]
	}
	return &source{command: path, missing: true, err: errors.New(reason)}
}

// withVanished adds to files those of the current generation that are not there since a moment only: who replaces a file
// may remove it first.
func (h *Host) withVanished(files []located, current []*source, now time.Time) []located {
	there := map[string]bool{}
	for _, file := range files {
		there[file.path] = true
		delete(h.scan.gone, file.path)
	}
	all := slices.Clone(files)
	for i, from := range current {
		if there[from.command] {
			continue
		}
		since, known := h.scan.gone[from.command]
		if !known {
			since = now
			h.scan.gone[from.command] = since
		}
		if now.Sub(since) >= settleTime {
			delete(h.scan.gone, from.command)
			continue
		}
		// Behind the one that it came after.
		at := 0
		if i > 0 {
			at = slices.IndexFunc(all, func(f located) bool { return f.path == current[i-1].command }) + 1
		}
		all = slices.Insert(all, at, located{path: from.command, identity: from.identity})
	}
	return all
}

// settled tells whether a file is finished, as far as its times and a second look can tell.
func (s *scanner) settled(file located, now time.Time) bool {
	if now.Sub(time.Unix(0, file.identity.Modified)) >= settleTime {
		return true
	}
	last, known := s.looks[file.path]
	if !known || !last.identity.SameContent(file.identity) {
		s.looks[file.path] = look{identity: file.identity, since: now}
		return false
	}
	return now.Sub(last.since) >= settleTime
}

// logOmitted tells the operator what is left out, when it is not the same as at the last look.
func (h *Host) logOmitted(seen found) {
	if seen.missing && !h.scan.missing {
		h.log.Info("there is no plugin directory, so there are built-in plugins only", "dir", h.dir)
	}
	for path, reason := range seen.omitted {
		if h.scan.omitted[path] != reason {
			h.log.Warn("not a plugin, left out", "path", path, "reason", reason)
		}
	}
	h.scan.missing, h.scan.omitted = seen.missing, seen.omitted
}
