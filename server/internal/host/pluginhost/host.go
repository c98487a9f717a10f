package pluginhost

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"k8s.io/utils/clock"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/framework/hostapi"
	"github.com/cleat-dev/cleat/framework/hostenv"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/calls"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/directory"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/process"
	"github.com/cleat-dev/cleat/server/internal/host/pluginlock"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/kinds"
)

// Config is the configuration of a Host. Only Log is required.
type Config struct {
	// Dir is the plugin directory. It may be missing, which is logged. What is added, replaced or removed in it later is
	// found without a restart.
	Dir string
	// Rescan is the time after which Dir is looked at even if no change was reported. Zero is 30 s, negative never.
	Rescan time.Duration
	// Args are given to each plugin after its command, as Velero gives them the server's flags.
	Args []string
	// BuiltIns are the plugins that are part of the server; they come first in every order.
	BuiltIns []framework.Registration
	// Disabled reports whether a built-in is disabled; nil means that none is.
	Disabled func(name string) bool
	// Features are the feature flags that the built-ins see; binaries read them from Args.
	Features []string
	// Order names plugins in the order in which they run, whatever their kinds. "*" stands for all other names; without it
	// they come last. They run in the order in which they are found: built-ins, then binaries in the order of the
	// directory.
	Order []string
	// Concurrency is how many calls that work on items a run may make at once, by the names of plugins; see
	// Entry.Concurrency.
	Concurrency map[string]int
	// Kinds are the versions of kinds that the server supports; nil means kinds.All().
	Kinds []versioning.WireKind
	// Isolate runs the built-ins in a process of their own: Self, "run-plugins", Args.
	Isolate bool
	Self    string // path of the server's binary
	// EnvironmentRule selects the variables of the server's environment that plugins get; empty means hostenv.Complete.
	// Environment is given to them as well ("NAME=value").
	EnvironmentRule hostenv.Rule
	Environment     []string
	// Configs are the configurations of actions, JSON of an object, by the names of their plugins. An action gets its own
	// after each start of its process, before other calls. A process with an action that refuses it cannot be used.
	Configs map[string][]byte
	Log     hclog.Logger
	// Logs returns the open log of a run that has no session, by its identity, and nil if there is none. It must not
	// block. nil means that there are none.
	Logs      func(run string) hclog.Logger
	Deadlines calls.Deadlines
	Restart   process.Restart
	Limits    process.Limits
	// Lock lists the binaries of Dir that may run. With and without a lock, a binary may run only if no user but root and
	// the user of this process can change it.
	Lock *pluginlock.Lock
	// Named is set if the user has named Dir and its content. Then a binary may run although others can change it.
	Named bool
	// LockPath is the file that Lock was read from, or from which a lock is to be read once it exists. The host reads it
	// again when it changes; see directory/lockfile.go. Empty: Lock stays as it is.
	LockPath string
	// IdleAfter is the time without use after which a process is stopped; the next call starts it again.
	// Zero is 5 minutes, negative never.
	IdleAfter time.Duration
	// TempDir has a directory for each process with its socket, while the process runs; empty for that of the system.
	TempDir string
	// Closed is called at the end of Close. May be nil.
	Closed func()
	// Metrics registers the metrics of calls and processes, whose names begin with "cleat_plugin_"; nil means none.
	Metrics prometheus.Registerer
	// Tracer records a span for every call; nil means none.
	Tracer trace.TracerProvider
	// Changed is called each time after plugins were added, replaced or removed; callers find the new ones by then. It
	// must not block. May be nil.
	Changed func()
	// Renewed is called each time after files have changed that plugins may have read. It must not block. May be nil.
	Renewed func()
	// Clock is for back-off and idle time; nil is the real one.
	Clock clock.WithDelayedExecution

	// For tests; a server uses the zero values.
	isVolume    func(dir string) bool
	stop, probe time.Duration // see process.PoolConfig
	patience    time.Duration // see defaultPatience
}

func (c Config) withDefaults() Config {
	if c.Restart.Jitter == nil {
		c.Restart.Jitter = rand.Float64
	}
	c.EnvironmentRule = cmp.Or(c.EnvironmentRule, hostenv.Complete)
	c.Rescan = cmp.Or(c.Rescan, 30*time.Second)
	c.IdleAfter = cmp.Or(c.IdleAfter, 5*time.Minute)
	if c.Kinds == nil {
		c.Kinds = kinds.All()
	}
	if c.Disabled == nil {
		c.Disabled = func(string) bool { return false }
	}
	if c.Changed == nil {
		c.Changed = func() {}
	}
	if c.Renewed == nil {
		c.Renewed = func() {}
	}
	if c.Closed == nil {
		c.Closed = func() {}
	}
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	return c
}

// Host runs plugins. It is safe for concurrent use.
type Host struct {
	log       hclog.Logger
	table     *calls.Table
	observer  calls.Observer
	pool      *process.Pool
	inputs    *process.Inputs
	builtIns  builtInSet
	directory *directory.Directory
	history   *history
	scanner   scanner
	locations locations
	logs      *logs
	closed    func() // Config.Closed

	environment Environment
}

// Environment returns the rule for the environment of plugins.
type Environment struct {
	Rule     hostenv.Rule
	Withheld []string // names of the variables that they do not get, sorted
}

// New finds the plugins in cfg.Dir, starts each binary once and lists its plugins. A binary that cannot be used is
// quarantined: Entries reports the reason, and the others work. An error means that the configuration or the built-ins
// are invalid, or that ctx has ended.
func New(ctx context.Context, cfg Config) (*Host, error) {
	cfg = cfg.withDefaults()
	directory, err := directory.Open(directory.Config{Path: cfg.Dir, Lock: cfg.Lock, LockPath: cfg.LockPath,
		Named: cfg.Named, IsVolume: cfg.isVolume, Log: cfg.Log})
	if err != nil {
		return nil, err
	}
	order, err := newOrder(cfg.Order)
	if err != nil {
		return nil, err
	}
	observer := calls.Observer{Metrics: calls.NewMetrics(cfg.Metrics), Tracer: calls.NewTracer(cfg.Tracer)}
	table := calls.NewTable(cfg.Deadlines, cfg.Kinds)
	variables, withheld := cfg.EnvironmentRule.Environ(os.Environ(), cfg.Environment...)
	inputs := process.NewInputs(located(cfg.Environment))
	logs := &logs{others: cfg.Logs}
	configs := configs{known: cfg.Kinds, byName: cfg.Configs}
	h := &Host{
		log: cfg.Log, table: table, observer: observer, directory: directory, inputs: inputs,
		environment: Environment{Rule: cfg.EnvironmentRule, Withheld: withheld},
		pool: process.NewPool(ctx, process.PoolConfig{
			Log: cfg.Log, LogOf: logs.of, Clock: cfg.Clock, Calls: table, Restart: cfg.Restart, Limits: cfg.Limits,
			IdleAfter: cfg.IdleAfter, Stop: cfg.stop, Probe: cfg.probe, Environment: variables, Inputs: inputs,
			TempDir: cfg.TempDir, Observer: observer,
		}),
		builtIns: builtInSet{registrations: cfg.BuiltIns, features: cfg.Features, table: table, observer: observer,
			logs: logs},
		logs: logs, closed: cfg.Closed,
		history: &history{
			log: cfg.Log, kinds: cfg.Kinds, atOnce: cfg.Concurrency, disabled: cfg.Disabled, order: order, changed: cfg.Changed,
			warned: map[versioning.Listed]bool{}, current: &generation{users: 1, catalog: &catalog{}},
		},
		locations: locations{byKey: map[locationKey]*location{}},
	}
	h.scanner = scanner{
		directory: directory, clock: cfg.Clock, restart: cfg.Restart, pool: h.pool, history: h.history, log: cfg.Log,
		args: cfg.Args, known: cfg.Kinds, query: table.Deadlines().Query,
		configs: configs, patience: cmp.Or(cfg.patience, defaultPatience),
		slots: make(chan struct{}, 2+2*runtime.GOMAXPROCS(0)), turn: make(chan struct{}, 1),
	}
	h.builtIns.configure = func(conn grpc.ClientConnInterface) error {
		return configs.apply(h.pool.Life(), conn, &h.builtIns.offer)
	}
	if len(withheld) > 0 {
		h.log.Info("variables of the server's environment are withheld from plugins", "plugins.environment",
			cfg.EnvironmentRule, "names", withheld)
	}
	if err := observer.Metrics.Register(h.pool, newInventory(h.Entries)); err != nil {
		return nil, err
	}
	if err := h.begin(ctx, cfg); err != nil {
		h.Close()
		return nil, err
	}
	if absent := order.absent(h.catalog()); len(absent) > 0 {
		h.log.Warn("the order of plugins names some that were not found", "names", absent)
	}
	if h.pool.Begin() {
		go func() {
			defer h.pool.End()
			inputs.Watch(h.pool.Life(), cfg.Renewed)
		}()
	}
	if cfg.Dir != "" && h.pool.Begin() {
		go func() {
			defer h.pool.End()
			directory.Watch(h.pool.Life(), cfg.Clock, cfg.Rescan, h.scanner.rescanOrLog)
		}()
	}
	return h, nil
}

// located returns the variables that name files which plugins may read once: those of Strict, which locate credentials
// and certificates, and those for plugins alone.
func located(ofPlugins []string) []string {
	variables, _ := hostenv.Strict.Environ(os.Environ(), ofPlugins...)
	return variables
}

// begin makes the first generation. It waits until all binaries have listed their plugins, except binaries that are
// still being written.
func (h *Host) begin(ctx context.Context, cfg Config) error {
	if len(cfg.BuiltIns) > 0 {
		services, err := h.builtIns.instantiate(h.log)
		own := &source{command: cfg.Self, builtIn: true, process: services, asked: &h.builtIns.offer}
		if errors.As(err, new(*ConfigError)) {
			own.err = err
		} else if err != nil {
			return fmt.Errorf("built-in plugins: %w", err)
		}
		h.builtIns.services = services
		if cfg.Isolate {
			own = h.scanner.open(cfg.Self, append([]string{"run-plugins"}, cfg.Args...), nil)
		}
		if err := await(ctx, slices.Values([]*question{h.scanner.ask(own)}), 0); err != nil {
			return fmt.Errorf("find plugins: %w", err)
		}
		h.scanner.own = []*source{own}
	}
	h.history.publish(h.scanner.own)
	if _, err := h.scanner.look(ctx, 0); err != nil {
		return fmt.Errorf("find plugins: %w", err)
	}
	return nil
}

// Rescan reads the plugin directory again. Sessions that begin afterwards use the added and replaced plugins. It waits
// for files that are still being written, as long as ctx allows. The host does the same by itself when the operating
// system reports a change; with Rescan, callers need not wait for that.
func (h *Host) Rescan(ctx context.Context) error { return h.scanner.rescan(ctx) }

// Lock returns the lock in force, nil if there is none: Config.Lock, or the last valid content of its file.
func (h *Host) Lock() *pluginlock.Lock { return h.directory.Lock() }

// Sum returns the SHA-256 sum of the plugin binary whose Entry has the given command. It reads the file that was opened
// when the plugin was found and that runs, which may differ from the file at that path now.
func (h *Host) Sum(command string) (string, error) {
	for _, r := range h.catalog().rows {
		if b := r.source.binary; r.Command == command && b != nil {
			return b.Sum()
		}
	}
	return "", fmt.Errorf("%s is not a plugin binary that could be opened", command)
}

// Entries returns all plugins found, in the order in which they run, and the files that cannot be used.
func (h *Host) Entries() []Entry {
	rows := h.catalog().rows
	entries := make([]Entry, 0, len(rows))
	made := h.observer.Metrics.Made()
	for _, r := range rows {
		entry := h.entry(r)
		if entry.Used {
			kind, _ := hostapi.SplitWireKind(entry.Kind)
			of := made[calls.Plugin{Name: entry.Name, Kind: kind}]
			entry.Calls, entry.Errors = of.Calls, of.Errors
		}
		entries = append(entries, entry)
	}
	return entries
}

// entry returns the entry of a row with its processes as they are now.
func (h *Host) entry(r row) Entry {
	r.Process = r.source.state()
	if r.Used {
		r.Locations = h.locations.of(&r.Entry, r.kind)
	}
	return r.Entry
}

// Environment returns what plugins get of the server's environment.
func (h *Host) Environment() Environment { return h.environment }

// Close stops all processes and returns when they have ended. Calls in flight fail.
func (h *Host) Close() {
	h.pool.Close()
	h.observer.Metrics.Unregister()
	for _, from := range h.history.now().sources {
		if from.binary != nil {
			_ = from.binary.Close()
		}
	}
	h.closed()
}

// canonical completes a plugin's name as Velero does: "aws" is "velero.io/aws".
func canonical(name string) string {
	if strings.Contains(name, "/") {
		return name
	}
	return "velero.io/" + name
}
