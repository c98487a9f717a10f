package pluginhost

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"k8s.io/utils/clock"

	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/directory"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/process"
	"github.com/cleat-dev/cleat/versioning"
)

const (
	// minPause and maxPause bound the pause between two scans while a plugin has not replied, or its file is still
	// written.
	minPause = 50 * time.Millisecond
	maxPause = 2 * time.Second
	// defaultPatience is how long one scan waits for plugins to list what they offer. A slower plugin is taken into use by
	// a later scan, so that it does not delay the others.
	defaultPatience = 2 * time.Second
)

// scanner makes the next generation when the plugin directory has changed. Its fields below turn belong to the
// goroutine that holds turn.
type scanner struct {
	directory *directory.Directory
	pool      *process.Pool
	history   *history
	log       hclog.Logger
	args      []string              // passed to every plugin
	known     []versioning.WireKind // versions of kinds that the server supports
	clock     clock.PassiveClock
	restart   process.Restart
	query     time.Duration // deadline for finding out which kinds a plugin serves
	patience  time.Duration // see defaultPatience
	configs   configs       // applied to each new process
	slots     chan struct{} // bounds how many plugins are asked concurrently
	own       []*source     // built-ins; they do not change

	turn      chan struct{}
	questions map[string]*question // about files that are not in the current generation yet, by path
}

// rescan scans the directory until every plugin in it is in use or quarantined, or ctx ends.
func (s *scanner) rescan(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return fmt.Errorf("look for plugins: %w", context.Cause(ctx))
	}
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		unfinished, err := s.look(ctx, s.patience)
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

// rescanOrLog is rescan for the watch of the directory.
func (s *scanner) rescanOrLog() {
	life := s.pool.Life()
	if err := s.rescan(life); err != nil && life.Err() == nil {
		s.log.Error("cannot look for plugins", "error", err)
	}
}

// look scans the directory once and lists the plugins of new files. It waits for their replies up to patience, or for
// all of them if patience is 0. It reports whether another scan is needed. The caller holds turn.
func (s *scanner) look(ctx context.Context, patience time.Duration) (unfinished bool, err error) {
	seen, err := s.directory.Look()
	if err != nil {
		return false, err
	}
	current := s.history.now()
	last := map[string]*source{} // by path
	for _, from := range current.sources[len(s.own):] {
		if !from.missing {
			last[from.command] = from
		}
	}
	sources, unfinished := s.sourcesOf(seen, last)
	if err := await(ctx, maps.Values(s.questions), patience); err != nil {
		return false, err
	}
	if s.pool.Life().Err() != nil { // no plugin could reply
		return false, process.ErrClosed
	}
	next := slices.Clone(s.own)
	for _, from := range sources {
		if !s.ready(from) {
			unfinished = true
			from = last[from.command]
		}
		if from != nil {
			next = append(next, from)
		}
	}
	for _, problem := range seen.Problems {
		next = append(next, missing(problem, current.sources))
	}
	if !slices.Equal(next, current.sources) {
		s.history.publish(next)
	}
	return unfinished, nil
}

// sourcesOf returns the sources of the files seen, in their order. An unchanged file keeps its last source; any other
// file gets a new source, whose plugins are listed. sourcesOf reports whether a file changed since it was seen.
func (s *scanner) sourcesOf(seen directory.Seen, last map[string]*source) (all []*source, changed bool) {
	questions := s.questions
	s.questions = map[string]*question{}
	for _, file := range seen.Files {
		from, asked := last[file.Path], questions[file.Path]
		switch {
		case asked != nil && asked.from.identity.SameContent(file.Identity) && asked.from.trust == seen.Trust:
			from = asked.from
			s.questions[file.Path] = asked
			delete(questions, file.Path)
		case from != nil && from.still(file) && !from.reconsider(seen.Trust) && !s.again(from):
		default:
			failures := 0
			if from != nil && s.again(from) {
				failures = from.failures
			}
			from = s.open(file.Path, s.args, seen.Trust)
			from.failures = failures
			if errors.Is(from.err, fs.ErrNotExist) || from.err == nil && !from.identity.SameContent(file.Identity) {
				changed = true // removed or replaced since it was seen
				from = last[file.Path]
				break
			}
			from.identity = file.Identity
			s.questions[file.Path] = s.ask(from)
		}
		if from != nil {
			all = append(all, from)
		}
	}
	for _, q := range questions { // the file was replaced or removed
		q.abandon()
	}
	return all, changed
}

// again reports whether a source that is quarantined because its process died or was slow is to be asked again.
func (s *scanner) again(from *source) bool {
	return process.MayWork(from.err) && s.clock.Since(from.failed) >= s.restart.CoolDownAfter(from.failures)
}

// open returns the source of the file at path. trust is nil for the server's own binary.
func (s *scanner) open(path string, args []string, trust *directory.Trust) *source {
	from := &source{command: path, builtIn: trust == nil, trust: trust}
	from.judged.Store(trust)
	binary, err := process.OpenBinary(path)
	if err != nil {
		from.err = fmt.Errorf("start plugin %s: %w", path, err)
		return from
	}
	from.binary, from.identity = binary, binary.Identity()
	from.asked = &offer{}
	from.launch = &process.Launch{Binary: binary, Args: args,
		OnStart: func(ctx context.Context, conn grpc.ClientConnInterface) error {
			return s.configs.apply(ctx, conn, from.asked)
		}}
	if trust != nil {
		from.launch.Check = func(b *process.Binary) (*process.Binary, error) { return from.judged.Load().Check(b) }
	}
	from.supervisor = s.pool.Supervise(from.launch)
	from.process = from.supervisor.Conn("", nil)
	return from
}

// ready reports whether a source has listed its plugins. If its file is still being written, ready drops the question,
// so that the next scan opens the file again.
func (s *scanner) ready(from *source) bool {
	q := s.questions[from.command]
	if q == nil || q.from != from {
		return true
	}
	if !q.isAnswered() {
		return false
	}
	delete(s.questions, from.command)
	if from.unfinished() {
		_ = from.binary.Close()
		return false
	}
	return true
}

// missing returns the source that shows a problem. It reuses the current source for the same problem.
func missing(problem directory.Problem, current []*source) *source {
	at := slices.IndexFunc(current, func(s *source) bool {
		return s.missing && s.command == problem.Path && s.err.Error() == problem.Reason
	})
	if at >= 0 {
		return current[at]
	}
	return &source{command: problem.Path, missing: true, err: errors.New(problem.Reason)}
}
