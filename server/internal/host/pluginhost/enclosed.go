package pluginhost

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/process"
	"github.com/cleat-dev/cleat/versioning"
)

// Enclosures has processes of plugins that see no more of the file system than an enclosure. A process serves one user
// at a time. It is kept for some time after its use, for the next user that needs the same plugin and enclosure.
type Enclosures struct {
	host   *Host
	idle   time.Duration
	atMost int
	memory int64

	mu   sync.Mutex
	used int
	free []*enclosedProcess // the longest unused one first
}

// NewEnclosures returns processes of the plugins of a host. They are kept for a time unless they hold more than some
// bytes of memory, and are not more than a number if no more are used at once.
func NewEnclosures(host *Host, idle time.Duration, atMost int, memory int64) *Enclosures {
	return &Enclosures{host: host, idle: idle, atMost: atMost, memory: memory}
}

// enclosedProcess is a process in an enclosure.
type enclosedProcess struct {
	supervisor *process.Supervisor
	enclosure  *process.Enclosure
	binary     *process.Binary
	once       bool // it serves one user
	plugin     string
	key        string

	since time.Time   // nobody uses it
	timer *time.Timer // that ends it then
}

// Lease is the use of an enclosed process by one user, until Return or End.
type Lease struct {
	of       *Enclosures
	process  *enclosedProcess
	attached []string
}

// Enclosed returns the plugin of a kind with the given name in an enclosed process that nobody else uses. Enclosures
// with the same key are alike. The error is the error of Named, or reports that the plugin has no process.
func Enclosed[H any](
	e *Enclosures, kind versioning.Kind[H], name, key string, enclosure *process.Enclosure,
) (plugin H, lease *Lease, err error) {
	chosen, err := choose(e.host, kind, kind.Name, name)
	if err != nil {
		return plugin, nil, err
	}
	if chosen.source.launch == nil {
		return plugin, nil, fmt.Errorf("%s %q is part of the server and runs in its process, where it cannot be shut off "+
			"from the node; give built-in plugins a process of their own (plugins.isolateBuiltIns)", kind.Name, chosen.name)
	}
	launch := *chosen.source.launch
	launch.Plugin, launch.Enclosure = chosen.name, enclosure
	p := e.take(&launch, key)
	p.once = chosen.source.offer.PerRun
	return chosen.version.Bind(p.supervisor.Conn(chosen.name, nil), chosen.name), &Lease{of: e, process: p}, nil
}

// take returns a process that is kept for a launch, or a new one, which gets the place of one that is kept if there
// would be too many.
func (e *Enclosures) take(launch *process.Launch, key string) *enclosedProcess {
	var ended []*enclosedProcess
	defer func() {
		for _, p := range ended {
			p.supervisor.Stop()
		}
	}()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.used++
	for i := 0; i < len(e.free); i++ {
		p := e.free[i]
		switch {
		case !p.supervisor.Runs():
			ended = append(ended, e.remove(i))
			i--
		case p.key == key && p.plugin == launch.Plugin && p.binary == launch.Binary:
			return e.remove(i)
		}
	}
	for len(e.free) > 0 && e.used+len(e.free) > e.atMost {
		ended = append(ended, e.remove(0))
	}
	return &enclosedProcess{
		supervisor: e.host.pool.Supervise(launch), enclosure: launch.Enclosure, binary: launch.Binary,
		plugin: launch.Plugin, key: key,
	}
}

// remove removes a process from those that nobody uses. The caller holds mu.
func (e *Enclosures) remove(i int) *enclosedProcess {
	p := e.free[i]
	e.free = slices.Delete(e.free, i, i+1)
	p.timer.Stop()
	return p
}

// endIdle ends a process that nobody has used for the time for which processes are kept.
func (e *Enclosures) endIdle(p *enclosedProcess) {
	e.mu.Lock()
	i := slices.Index(e.free, p)
	over := i >= 0 && time.Since(p.since) >= e.idle // otherwise it was used meanwhile
	if over {
		e.remove(i)
	}
	e.mu.Unlock()
	if over {
		p.supervisor.Stop()
	}
}

// Attach mounts a file of the host in the enclosure, at the path of one of its mounts that has no file, for this user
// alone. It starts the process unless it runs.
func (l *Lease) Attach(ctx context.Context, m process.Mount) error {
	if err := l.process.supervisor.Ready(ctx, l.process.plugin); err != nil {
		return err
	}
	err := l.process.enclosure.Attach(m)
	if err == nil {
		l.attached = append(l.attached, m.Path)
	}
	return err
}

// Return ends the use of the process, which is kept for the next user. If it does not let go of what was attached, or
// holds too much memory, or serves one user only, it is ended.
func (l *Lease) Return() {
	if l.process.once || l.process.supervisor.State().ResidentBytes > l.of.memory {
		l.End()
		return
	}
	for _, path := range l.attached {
		if err := l.process.enclosure.Detach(path); err != nil {
			l.of.host.log.Debug("a plugin process still uses what it was given, and is ended", "plugin",
				l.process.plugin, "error", err)
			l.End()
			return
		}
	}
	e := l.of
	e.mu.Lock()
	defer e.mu.Unlock()
	e.used--
	l.process.since = time.Now()
	l.process.timer = time.AfterFunc(e.idle, func() { e.endIdle(l.process) })
	e.free = append(e.free, l.process)
}

// End ends the process.
func (l *Lease) End() {
	l.process.supervisor.Stop()
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	l.of.used--
}
