package pluginhost

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/utils/clock"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/framework/hostenv"
	"github.com/cleat-dev/cleat/server/pluginhost/calls"
	"github.com/cleat-dev/cleat/server/pluginhost/process"
	"github.com/cleat-dev/cleat/server/pluginlock"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/kinds"
)

// Config is what a Host needs to know. Only Log is required.
type Config struct {
	// Dir is the plugin directory. It may be missing, which is logged. What is added, replaced or removed in it later is
	// found by itself.
	Dir string
	// Rescan is the time after which Dir is looked at even when nothing has told of a change. Zero is 30 s, negative never.
	Rescan time.Duration
	// Args are given to each plugin after its command, as Velero gives them the server's flags.
	Args []string
	// BuiltIns are the plugins that are part of the server; they come first in every order.
	BuiltIns []framework.Registration
	// Order names plugins in the order in which they run, whatever their kinds. "*" stands for all that it does not name;
	// without it they come last. These run as they are found: built-ins, then binaries in the order of the directory.
	Order []string
	// Kinds are the versions of kinds that the server knows; nil is kinds.All().
	Kinds []versioning.WireKind
	// Isolate runs the built-ins in a process of their own: Self, "run-plugins", Args.
	Isolate bool
	Self    string // path of the server's binary
	// Environment is given to each plugin ("NAME=value"), beside what it gets of the server's own:
	// see package hostenv.
	Environment []string
	Log         hclog.Logger
	Deadlines   calls.Deadlines
	Restart     process.Restart
	Limits      process.Limits
	// Lock is what may run of Dir, built-ins aside; nil is what nobody but the owner can change.
	Lock *pluginlock.Lock
	// LockPath is the file that Lock was read from, or nil's, where one may come to be. When it changes the host takes what it
	// says for its lock; see lockfile.go. Empty: Lock stays as it is.
	LockPath string
	// IdleAfter is the time without use after which a process is stopped; the next call starts it again.
	// Zero is 5 minutes, negative never.
	IdleAfter time.Duration
	// Metrics gets the metrics of calls and processes, their names begin with "cleat_plugin_"; nil: none.
	Metrics prometheus.Registerer
	// Tracer gets a span for every call; nil: none.
	Tracer trace.TracerProvider
	// Changed is called each time that plugins were added, replaced or removed, when who asks for one gets the new one. It
	// must not block. nil: nobody is told.
	Changed func()
	// Clock is for back-off and idle time; nil is the real one.
	Clock clock.WithDelayedExecution

	isVolume func(dir string) bool // for tests; nil is isPodVolume
}

// Host runs plugins. It is safe for concurrent use.
type Host struct {
	log       hclog.Logger
	clock     clock.WithDelayedExecution
	deadlines calls.Deadlines
	pool      *process.Pool
	places    chan struct{} // holds a token for each plugin that is asked what it offers
	observer  calls.Observer
	changed   func()

	builtIns []framework.Registration
	services *inProcess    // the built-ins, logging to log
	known    calls.Answers // of built-ins in process
	dir      string
	args     []string
	kinds    []versioning.WireKind
	order    order

	trust          *trust // replaced with the lock, under mu, by who has the turn of scan
	lockFile       lockFile
	builtInSources int // how many of the sources of every generation are the server's own
	scan           scanner
	warned         map[versioning.Listed]bool // plugins of which it was said that they use a deprecated version

	mu        sync.Mutex
	current   *generation
	locations map[string]*location
}

// New finds the plugins in cfg.Dir, starts each binary once and asks what it offers. A binary that cannot be used
// is quarantined: Entries has the reason, the others work. An error means that the built-ins are wrong in
// themselves, or that ctx has ended.
func New(ctx context.Context, cfg Config) (*Host, error) {
	if cfg.Restart.Jitter == nil {
		cfg.Restart.Jitter = rand.Float64
	}
	h := &Host{
		log:       cfg.Log,
		clock:     cfg.Clock,
		deadlines: cfg.Deadlines.WithDefaults(),
		places:    make(chan struct{}, 2+2*runtime.GOMAXPROCS(0)),
		builtIns:  cfg.BuiltIns,
		dir:       cfg.Dir,
		args:      cfg.Args,
		kinds:     cfg.Kinds,
		scan:      newScanner(),
		warned:    map[versioning.Listed]bool{},
		current:   &generation{users: 1, catalog: &catalog{}},
		changed:   cfg.Changed,
		locations: map[string]*location{},
	}
	if h.changed == nil {
		h.changed = func() {}
	}
	isVolume := isPodVolume
	if cfg.isVolume != nil {
		isVolume = cfg.isVolume
	}
	h.trust = newTrust(cfg.Dir, cfg.Lock, isVolume, h.log)
	if cfg.LockPath != "" {
		h.lockFile.path = absolute(cfg.LockPath)
	}
	if cfg.Lock != nil && cfg.LockPath != "" {
		if err := h.lockFile.begin(h.trust.volume, h.log); err != nil {
			return nil, err
		}
	}
	var err error
	if h.order, err = newOrder(cfg.Order); err != nil {
		return nil, err
	}
	if h.kinds == nil {
		h.kinds = kinds.All()
	}
	if h.clock == nil {
		h.clock = clock.RealClock{}
	}
	h.observer = calls.Observer{Metrics: calls.NewMetrics(cfg.Metrics), Tracer: calls.NewTracer(cfg.Tracer)}
	h.pool = process.NewPool(ctx, process.PoolConfig{
		Log: h.log, Clock: h.clock, Deadlines: h.deadlines, Restart: cfg.Restart, Limits: cfg.Limits,
		IdleAfter: cmp.Or(cfg.IdleAfter, 5*time.Minute), Environment: hostenv.Environ(os.Environ(), cfg.Environment...), Observer: h.observer,
	})
	if err := h.observer.Metrics.Register(h.pool, newInventory(h.Entries)); err != nil {
		return nil, err
	}
	own, err := h.ownSources(cfg)
	if err != nil {
		h.Close()
		return nil, err
	}
	if err := h.begin(ctx, own); err != nil {
		h.Close()
		return nil, fmt.Errorf("find plugins: %w", err)
	}
	if absent := h.order.absent(h.now().catalog); len(absent) > 0 {
		h.log.Warn("the order of plugins names some that are not there", "names", absent)
	}
	if h.dir != "" && h.pool.Begin() {
		go h.watch(cmp.Or(cfg.Rescan, 30*time.Second))
	}
	return h, nil
}

// begin makes the first generation: all that is there has been asked. Files that are not finished are left to watch.
func (h *Host) begin(ctx context.Context, own []*source) error {
	h.builtInSources = len(own)
	for _, from := range own {
		if err := await(ctx, slices.Values([]*question{h.beginToAsk(from)}), 0); err != nil {
			return err
		}
	}
	h.publish(own)
	unfinished, err := h.lookAgain(ctx, 0)
	if err == nil && unfinished {
		time.Sleep(settleTime)
		_, err = h.lookAgain(ctx, 0)
	}
	return err
}

// ownSources are those of the plugins that are part of the server.
func (h *Host) ownSources(cfg Config) ([]*source, error) {
	if len(cfg.BuiltIns) == 0 {
		return nil, nil
	}
	var err error
	if h.services, err = h.builtInServices(h.log); err != nil {
		return nil, fmt.Errorf("built-in plugins: %w", err)
	}
	if !cfg.Isolate {
		return []*source{{command: cfg.Self, builtIn: true}}, nil
	}
	return []*source{h.binary(cfg.Self, append([]string{"run-plugins"}, cfg.Args...), true, process.Identity{})}, nil
}

// builtInServices makes the built-ins callable in process; they log to log.
func (h *Host) builtInServices(log hclog.Logger) (*inProcess, error) {
	services := newInProcess()
	if err := framework.RegisterAll(services, log, h.builtIns...); err != nil {
		return nil, err
	}
	return services, nil
}

// Entries are all plugins found, in the order in which they run, and the files that could not be used.
func (h *Host) Entries() []Entry { return h.now().catalog.entries() }

// Close stops all processes and returns when they are gone. Calls in flight fail.
func (h *Host) Close() {
	h.pool.Close()
	h.observer.Metrics.Unregister()
	for _, from := range h.now().sources {
		if from.binary != nil {
			_ = from.binary.Close()
		}
	}
}

// canonical completes a plugin's name as Velero does: "aws" is "velero.io/aws".
func canonical(name string) string {
	if strings.Contains(name, "/") {
		return name
	}
	return "velero.io/" + name
}
