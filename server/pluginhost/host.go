package pluginhost

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/utils/clock"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/kinds"
)

// Config is what a Host needs to know. Only Log is required.
type Config struct {
	// Dir is the plugin directory. It may be missing, which is logged.
	Dir string
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
	// see environment.go.
	Environment []string
	Log         hclog.Logger
	Deadlines   Deadlines
	Restart     Restart
	Limits      Limits
	// IdleAfter is the time without use after which a process is stopped; the next call starts it again.
	// Zero is 5 minutes, negative never.
	IdleAfter time.Duration
	// Metrics gets the metrics of calls and processes, their names begin with "cleat_plugin_"; nil: none.
	Metrics prometheus.Registerer
	// Tracer gets a span for every call; nil: none.
	Tracer trace.TracerProvider
	// Clock is for back-off and idle time; nil is the real one.
	Clock clock.WithDelayedExecution
}

// Host runs plugins. It knows them from New on: what is put into the directory later is found by the next server.
// It is safe for concurrent use.
type Host struct {
	log       hclog.Logger
	clock     clock.WithDelayedExecution
	deadlines Deadlines
	restart   Restart
	limits    Limits
	idle      time.Duration
	running   *registry
	observer  observer

	builtIns []framework.Registration
	services *inProcess // the built-ins, logging to log
	kinds    []versioning.WireKind
	order    order
	sources  []*source
	catalog  *catalog
	known    answers // of built-ins in process

	mu        sync.Mutex
	locations map[string]*location
}

// source is where plugins come from: a binary or, without a supervisor, the server itself.
type source struct {
	command    string
	builtIn    bool
	launch     launch
	supervisor *supervisor // of the process that all sessions share; nil for built-ins in process

	// What it answered when it was asked, before anybody else saw it.
	offer    versioning.Description
	unserved []string // kinds as on the wire that it names but does not serve
	err      error    // why it offers nothing; set from the start when the binary cannot be run at all
}

// process tells of the process that sessions share, if it runs.
func (s *source) process() Process {
	if s.supervisor == nil {
		return Process{}
	}
	return s.supervisor.state()
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
		deadlines: cfg.Deadlines.withDefaults(),
		restart:   cfg.Restart.withDefaults(),
		limits:    cfg.Limits.withDefaults(),
		idle:      orDefault(cfg.IdleAfter, 5*time.Minute),
		running:   newRegistry(ctx),
		builtIns:  cfg.BuiltIns,
		kinds:     cfg.Kinds,
		locations: map[string]*location{},
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
	metrics, err := newMetrics(cfg.Metrics, h.running)
	if err != nil {
		return nil, err
	}
	h.observer = observer{metrics: metrics, tracer: newTracer(cfg.Tracer)}
	environment := pluginEnvironment(os.Environ(), cfg.Environment)
	var sources []*source
	if len(cfg.BuiltIns) > 0 {
		if h.services, err = h.builtInServices(h.log); err != nil {
			h.Close()
			return nil, fmt.Errorf("built-in plugins: %w", err)
		}
		if cfg.Isolate {
			args := append([]string{"run-plugins"}, cfg.Args...)
			sources = append(sources, h.binary(cfg.Self, args, environment, true))
		} else {
			sources = append(sources, &source{command: cfg.Self, builtIn: true})
		}
	}
	for _, path := range findBinaries(cfg.Dir, h.log) {
		sources = append(sources, h.binary(path, cfg.Args, environment, false))
	}
	h.askAll(ctx, sources)
	if ctx.Err() != nil {
		h.Close()
		return nil, fmt.Errorf("find plugins: %w", context.Cause(ctx))
	}
	h.sources = sources
	h.catalog = newCatalog(h.kinds, h.order, sources)
	for _, r := range h.catalog.rows {
		r.logTo(h.log)
	}
	return h, nil
}

// builtInServices makes the built-ins callable in process; they log to log.
func (h *Host) builtInServices(log hclog.Logger) (*inProcess, error) {
	services := newInProcess()
	if err := framework.RegisterAll(services, log, h.builtIns...); err != nil {
		return nil, err
	}
	return services, nil
}

func (h *Host) binary(path string, args, environment []string, builtIn bool) *source {
	b, err := openBinary(path)
	if err != nil {
		return &source{command: path, builtIn: builtIn, err: fmt.Errorf("start plugin %s: %w", path, err)}
	}
	l := launch{
		binary: b, args: args, env: environment, handshake: framework.Handshake(),
		deadlines: h.deadlines, sizes: h.limits, clock: h.clock,
	}
	return &source{command: path, builtIn: builtIn, launch: l, supervisor: newSupervisor(l, h.log, h)}
}

// Entries are all plugins found, in the order in which they run, and the files that could not be used.
func (h *Host) Entries() []Entry { return h.catalog.entries() }

// Close stops all processes and returns when they are gone. Calls in flight fail.
func (h *Host) Close() {
	h.running.close()
	for _, from := range h.sources {
		if from.launch.binary != nil {
			_ = from.launch.binary.Close()
		}
	}
	h.observer.metrics.unregister()
}

// canonical completes a plugin's name as Velero does: "aws" is "velero.io/aws".
func canonical(name string) string {
	if strings.Contains(name, "/") {
		return name
	}
	return "velero.io/" + name
}
