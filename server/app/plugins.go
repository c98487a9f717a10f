package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/hostapi"
	"github.com/cleat-dev/cleat/server/internal/control/policy"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/calls"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/process"
	"github.com/cleat-dev/cleat/server/internal/host/pluginlock"
	"github.com/cleat-dev/cleat/server/internal/kube/tracing"
	"github.com/cleat-dev/cleat/server/internal/report/pluginreport"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
	"github.com/cleat-dev/cleat/server/internal/spec/config"
	"github.com/cleat-dev/cleat/versioning/kinds"
)

// NewHost finds the plugins and returns their host. It returns an error if a plugin that the configuration names as a
// policy is missing or rejects its settings. It needs no cluster. metrics, spans and changed, see pluginhost.Config,
// may be nil.
func NewHost(
	ctx context.Context, c Config, metrics prometheus.Registerer, spans trace.TracerProvider, changed func(),
) (*pluginhost.Host, error) {
	settings := HostConfig(c)
	settings.Metrics, settings.Tracer, settings.Changed, settings.Renewed = metrics, spans, changed, c.renewed
	err := checkDisabled(c.File.Plugins.DisabledBuiltIns, settings.BuiltIns)
	if err != nil {
		return nil, err
	}
	if settings.Lock, err = lock(c); err != nil {
		return nil, err
	}
	settings.LockPath = lockPath(c)
	if settings.TempDir, settings.Closed, err = newSockets(os.TempDir(), c.Log); err != nil {
		return nil, err
	}
	host, err := pluginhost.New(ctx, settings)
	if err != nil {
		settings.Closed()
		return nil, fmt.Errorf("start the plugin host: %w", err)
	}
	warnings, err := c.File.Check(func(kind, name string) ([]byte, error) {
		entry, err := host.Find(kind, name)
		return entry.ConfigSchema, err
	})
	if err == nil {
		var more []string
		more, err = c.File.Validate(ctx, ValidateWith(host))
		warnings = append(warnings, more...)
	}
	more, wrong := c.File.CheckActions(implementations(host))
	warnings, err = append(warnings, more...), errors.Join(err, wrong)
	for _, warning := range warnings {
		c.Log.Warn(warning)
	}
	if err != nil {
		host.Close()
		return nil, err
	}
	return host, nil
}

// CheckIndispensable returns an error if a kind of plugins without which no backup is made has none left, because
// built-in ones are disabled: the policies in force, and object stores.
func CheckIndispensable(host *pluginhost.Host, file *config.File) error {
	var errs []error
	inForce := policy.Plugins(file)
	for _, of := range []struct{ kind, key string }{
		{kinds.QueueAdmission().Name, "backups.admission"}, {kinds.LoadSoothing().Name, "nodeAgent.soothing"},
		{kinds.ManifestWriter().Name, "backups.manifestWriters"},
	} {
		for _, name := range inForce[of.kind] {
			if _, err := host.Find(of.kind, name); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w; name a plugin that is left, or leave the built-in one out of "+
					"plugins.disabledBuiltIns", of.key, err))
			}
		}
	}
	if store := kinds.ObjectStore().Name; !slices.ContainsFunc(host.Entries(), func(e pluginhost.Entry) bool {
		kind, _ := hostapi.SplitWireKind(e.Kind)
		return kind == store && e.Quarantined == ""
	}) {
		errs = append(errs, fmt.Errorf("plugins.disabledBuiltIns: no %s is left, so there is no place for backups", store))
	}
	return errors.Join(errs...)
}

// ValidateWith returns a function with which the file lets the host's plugins check their configuration.
func ValidateWith(
	host *pluginhost.Host,
) func(ctx context.Context, kind, name string, config []byte) ([]config.Fault, error) {
	return func(ctx context.Context, kind, name string, configured []byte) ([]config.Fault, error) {
		found, err := host.ValidateConfig(ctx, kind, name, configured)
		var faults []config.Fault
		for _, fault := range found {
			faults = append(faults, config.Fault(fault))
		}
		return faults, err
	}
}

// implementations returns a function that returns the implementations with a name, even if they refuse their
// configuration.
func implementations(host *pluginhost.Host) func(name string) ([]config.Implementation, error) {
	return func(name string) ([]config.Implementation, error) {
		var found []config.Implementation
		var wrong []string
		for _, entry := range host.Entries() {
			kind, schema := entry.Kind, entry.ConfigSchema
			var faults []config.Fault
			switch refused := entry.Refused; {
			case refused != nil && refused.Name == name:
				kind, schema = refused.Kind, refused.Schema
				for _, fault := range refused.Faults {
					faults = append(faults, config.Fault(fault))
				}
			case entry.Quarantined != "" && (entry.Name == "" || entry.Name == name):
				wrong = append(wrong, fmt.Sprintf("; quarantined: %s (%s)", entry.Command, entry.Quarantined))
				continue
			case entry.Name != name:
				continue
			}
			kind, _ = hostapi.SplitWireKind(kind)
			found = append(found, config.Implementation{Kind: kind, Schema: schema, Faults: faults})
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("no plugin of this name was found%s", strings.Join(wrong, ""))
		}
		return found, nil
	}
}

// HostConfig returns the settings for finding and running plugins.
func HostConfig(c Config) pluginhost.Config {
	p := c.File.Plugins
	return pluginhost.Config{
		Dir: c.Options.PluginDir, Args: c.PluginArgs, BuiltIns: c.BuiltIns, Disabled: p.Disables,
		Features: c.Options.Features,
		Isolate:  c.Options.IsolateBuiltIns, Self: c.Self, Log: c.Log.Named("plugins"), Logs: c.logs.Of,
		Order: p.Order, Concurrency: p.Concurrency, Rescan: p.Rescan.Std(),
		EnvironmentRule: p.Environment.Rule(), Environment: environment(p.Variables),
		Configs: configs(p.Config),
		Deadlines: calls.Deadlines{
			Start: p.Deadlines.Start.Std(), Query: p.Deadlines.Query.Std(), Execute: p.Deadlines.Execute.Std(),
			Kinds: kindDeadlines(p.Deadlines.Kinds),
		},
		Limits: process.Limits{
			MessageSize: int(p.Limits.MessageSize), LinesPerSecond: p.Limits.LinesPerSecond, Memory: int(p.Limits.Memory),
		},
		Restart: process.Restart{
			Backoff: p.Restart.Backoff.Std(), Threshold: p.Restart.Threshold, CoolDown: p.Restart.CoolDown.Std(),
		},
	}
}

func configs(configured map[string]config.Object) map[string][]byte {
	configs := map[string][]byte{}
	for name, object := range configured {
		configs[name] = object.Bytes()
	}
	return configs
}

func kindDeadlines(configured map[string]config.Duration) map[string]time.Duration {
	if configured == nil {
		return nil
	}
	deadlines := map[string]time.Duration{}
	for kind, deadline := range configured {
		deadlines[kind] = deadline.Std()
	}
	return deadlines
}

// lock reads the lock file that the configuration names, or else the lock file of the plugin directory. It returns nil
// if there is none.
func lock(c Config) (*pluginlock.Lock, error) {
	named := c.File.Plugins.Lock
	read, err := pluginlock.Read(lockPath(c))
	switch {
	case err == nil:
		return read, nil
	case named == "" && errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case named == "":
		return nil, err
	default:
		return nil, c.File.Problem("plugins.lock", err)
	}
}

// lockPath returns the path of the lock file, which need not exist.
func lockPath(c Config) string {
	if named := c.File.Plugins.Lock; named != "" && named != config.LockRequired {
		return named
	}
	return filepath.Join(c.Options.PluginDir, pluginlock.FileName)
}

// tracer returns a provider that sends the spans of plugin calls to the configured endpoint, or nil without one. stop
// sends the remaining spans.
func tracer(ctx context.Context, c Config) (spans trace.TracerProvider, stop func(), err error) {
	if c.File.Tracing.Endpoint == "" {
		return nil, func() {}, nil
	}
	log := c.Log.Named("tracing")
	provider, err := tracing.New(ctx, c.File.Tracing.Endpoint, c.Version, log)
	if err != nil {
		return nil, nil, fmt.Errorf("start tracing: %w", err)
	}
	return provider, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastSpans)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			log.Warn("could not send the last spans", "error", err)
		}
	}, nil
}

// lastSpans is how long the server waits, when it stops, for the remaining spans to be sent.
const lastSpans = 2 * time.Second

// environment returns the variables that the configuration sets for plugins in the form of os.Environ, "NAME=value",
// sorted.
func environment(table map[string]string) []string {
	var variables []string
	for _, name := range slices.Sorted(maps.Keys(table)) {
		variables = append(variables, name+"="+table[name])
	}
	return variables
}

// listPlugins returns the plugins for the status of a ServerStatusRequest, sorted by kind and name. Files whose plugins
// are unknown are left out.
func listPlugins(entries []pluginhost.Entry) []velerov1.PluginInfo {
	var list []velerov1.PluginInfo
	for _, entry := range entries {
		if entry.Name != "" && entry.Kind != "" {
			list = append(list, velerov1.PluginInfo{Name: entry.Name, Kind: entry.Kind})
		}
	}
	slices.SortFunc(list, func(a, b velerov1.PluginInfo) int {
		return strings.Compare(a.Kind+"\x00"+a.Name, b.Kind+"\x00"+b.Name)
	})
	return slices.Compact(list)
}

// reportPlugins returns a function that reports on all plugins or, with details, on the plugins that match.
func reportPlugins(
	c Config, host *pluginhost.Host,
) func(ctx context.Context, details string) *serverreport.PluginReport {
	source := pluginreport.Source{
		Host: host, Directory: c.Options.PluginDir, LockPath: lockPath(c),
		Order: c.File.Plugins.Order, Policies: policy.Plugins(c.File), Log: c.Log.Named("plugins"),
	}
	return func(ctx context.Context, details string) *serverreport.PluginReport {
		source := source
		source.Lock = host.Lock()
		if details == "" {
			return source.Report()
		}
		return source.Detailed(ctx, details)
	}
}
