package process

import (
	"cmp"
	"context"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/calls"
)

// PoolConfig is what all processes of a Pool have in common.
type PoolConfig struct {
	Log         hclog.Logger
	LogOf       func(run string) hclog.Logger // nil for a run without an open log; may be nil
	Clock       clock.WithDelayedExecution
	Calls       *calls.Table
	Restart     Restart
	Limits      Limits
	IdleAfter   time.Duration // without use after which a process is stopped; negative means never
	Stop        time.Duration // that a process gets to end by itself before it is killed; default 2 s
	Probe       time.Duration // that a process gets to answer whether it is alive, after a call failed; default 5 s
	Environment []string      // of each process, "NAME=value"
	TempDir     string        // of the sockets of the processes; empty for that of the system
	Inputs      *Inputs       // that the processes may have read; nil for none
	Observer    calls.Observer
}

// Pool holds the processes of one host. Close leaves none behind.
type Pool struct {
	config PoolConfig
	life   context.Context // ends when the pool closes
	cancel context.CancelCauseFunc

	mu        sync.Mutex
	shut      bool
	processes map[*process]struct{}
	active    sync.WaitGroup // processes, and work begun with Begin
}

// NewPool returns an empty pool. It keeps the values of ctx but ends with Close only: a run's end does not stop the
// processes that it shares with others.
func NewPool(ctx context.Context, config PoolConfig) *Pool {
	config.Restart, config.Limits = config.Restart.withDefaults(), config.Limits.withDefaults()
	config.Stop, config.Probe = cmp.Or(config.Stop, 2*time.Second), cmp.Or(config.Probe, 5*time.Second)
	life, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	return &Pool{config: config, life: life, cancel: cancel, processes: map[*process]struct{}{}}
}

// Supervise returns a supervisor for a launch; nothing is started before the first call. An enclosed process runs until
// Stop.
func (g *Pool) Supervise(l *Launch) *Supervisor {
	log := g.config.Log.With("cmd", l.Binary.Path, "pluginName", filepath.Base(l.Binary.Path))
	if l.Plugin != "" {
		log = log.With("plugin", l.Plugin)
	}
	idle := g.config.IdleAfter
	switch {
	case l.Enclosure != nil:
		idle = -1
	case l.Own && (idle < 0 || idle > ownIdle):
		idle = ownIdle
	}
	return &Supervisor{
		launch: l, pool: g, log: log, idle: idle,
		health: &health{breaker: breaker{policy: g.config.Restart}}, turn: make(chan struct{}, 1),
		callers: callers{isOpen: func(run string) bool { return g.logOf(run) != nil }},
	}
}

// logOf returns the open log of a run, nil if there is none.
func (g *Pool) logOf(run string) hclog.Logger {
	if run == "" || g.config.LogOf == nil {
		return nil
	}
	return g.config.LogOf(run)
}

// Life returns a context that ends when the pool closes.
func (g *Pool) Life() context.Context { return g.life }

// Begin announces work that Close has to wait for, and reports false if the pool is closed. End must follow.
func (g *Pool) Begin() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		return false
	}
	g.active.Add(1)
	return true
}

// End ends the work that Begin announced.
func (g *Pool) End() { g.active.Done() }

// add takes responsibility for a process and reports false if the pool is closed.
func (g *Pool) add(p *process) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		return false
	}
	g.processes[p] = struct{}{}
	return true
}

func (g *Pool) remove(p *process) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.processes, p)
}

// Running describes a process that can be called.
type Running struct {
	Command string
	PID     int
	Address net.Addr // where it listens
	// Encrypted reports whether host and plugin have checked the certificates of each other, so that no third party can
	// take part.
	Encrypted bool
}

// Running returns the processes that can be called now.
func (g *Pool) Running() []Running {
	var running []Running
	for _, p := range g.all() {
		running = append(running, Running{Command: p.path, PID: p.pid(), Address: p.address, Encrypted: p.encrypted()})
	}
	return running
}

func (g *Pool) all() []*process {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Collect(maps.Keys(g.processes))
}

// Close stops all processes and returns when they have ended. Calls in flight fail.
func (g *Pool) Close() {
	g.mu.Lock()
	g.shut = true
	for p := range g.processes {
		go p.stop()
	}
	g.mu.Unlock()
	g.cancel(ErrClosed)
	g.active.Wait()
}

var (
	processesDesc = prometheus.NewDesc("cleat_plugin_processes", "Running processes of a plugin binary.",
		[]string{"command"}, nil)
	residentDesc = prometheus.NewDesc("cleat_plugin_resident_memory_bytes",
		"Resident memory of all processes of a plugin binary.", []string{"command"}, nil)
)

// Describe implements prometheus.Collector.
func (g *Pool) Describe(descs chan<- *prometheus.Desc) {
	descs <- processesDesc
	descs <- residentDesc
}

// Collect implements prometheus.Collector.
func (g *Pool) Collect(metrics chan<- prometheus.Metric) {
	count, memory := map[string]int{}, map[string]int64{}
	for _, p := range g.all() {
		count[p.path]++
		memory[p.path] += residentBytes(p.pid())
	}
	for command, n := range count {
		metrics <- prometheus.MustNewConstMetric(processesDesc, prometheus.GaugeValue, float64(n), command)
		if memory[command] > 0 {
			metrics <- prometheus.MustNewConstMetric(residentDesc, prometheus.GaugeValue, float64(memory[command]), command)
		}
	}
}
