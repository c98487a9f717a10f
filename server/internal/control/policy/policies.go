package policy

import (
	"cmp"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
	"github.com/cleat-dev/cleat/server/internal/spec/config"
	"github.com/cleat-dev/cleat/versioning/kinds"
)

// Defaults of the configuration.
const (
	DecisionDeadline = 10 * time.Second
	ManifestDeadline = 10 * time.Minute // without progress
)

// Deps are the dependencies of the policies. All except Metrics are required.
type Deps struct {
	Host    *pluginhost.Host
	Log     hclog.Logger
	Metrics prometheus.Registerer // gets the metrics cleat_policy_*; nil for none
	Now     func() time.Time
}

// Policies holds the policies in force.
type Policies struct {
	Admission *Admission
	Soothing  *Soothing
	Manifests *Manifests
	DryRuns   *Manifests // for the manifests of dry runs
}

// Plugins returns the names of the plugins that the policies of a file name, by kind.
func Plugins(file *config.File) map[string][]string {
	plugins := map[string][]string{}
	add := func(kind, builtIn string, settings config.Policy) {
		name := cmp.Or(settings.Plugin, builtIn)
		plugins[kind] = append(plugins[kind], name)
		if settings.FailurePolicy == config.UseBuiltIn && name != builtIn {
			plugins[kind] = append(plugins[kind], builtIn)
		}
	}
	add(kinds.QueueAdmission().Name, config.DefaultAdmission, file.Backups.Admission)
	add(kinds.LoadSoothing().Name, config.DefaultSoothing, file.NodeAgent.Soothing)
	for _, writer := range manifestWriters(file) {
		add(kinds.ManifestWriter().Name, "", config.Policy(writer))
	}
	return plugins
}

// manifestWriters returns the manifest writers in force.
func manifestWriters(file *config.File) []config.ManifestWriter {
	if file.Backups.ManifestWriters == nil {
		return []config.ManifestWriter{{Plugin: config.DefaultManifestWriter}}
	}
	return file.Backups.ManifestWriters
}

// dryRunWriter returns the manifest writer of dry runs, which always have a manifest: the default one, or the first
// configured one if the default is disabled.
func dryRunWriter(file *config.File) config.ManifestWriter {
	writer := config.ManifestWriter{Plugin: config.DefaultManifestWriter}
	if len(file.Backups.ManifestWriters) > 0 && file.Plugins.Disables(writer.Plugin) {
		return file.Backups.ManifestWriters[0]
	}
	for _, configured := range file.Backups.ManifestWriters {
		if configured.Plugin == config.DefaultManifestWriter {
			writer.Deadline, writer.Config = configured.Deadline, configured.Config
		}
	}
	return writer
}

// New returns the policies of a file. Their plugins are looked up in each call; a server checks them before it starts,
// see config.File.Check.
func New(file *config.File, deps Deps) (*Policies, error) {
	counts, err := newMetrics(deps.Metrics)
	if err != nil {
		return nil, fmt.Errorf("register the metrics of policies: %w", err)
	}
	inForce := func(kind, builtIn string, settings config.Policy, failurePolicy string, deadline time.Duration) *policy {
		settings.Plugin = cmp.Or(settings.Plugin, builtIn)
		settings.FailurePolicy = cmp.Or(settings.FailurePolicy, failurePolicy)
		settings.Deadline = cmp.Or(settings.Deadline, config.Duration(deadline))
		log := deps.Log.With("kind", kind, "plugin", settings.Plugin)
		return &policy{
			kind: kind, settings: settings, builtIn: builtIn, host: deps.Host, log: log,
			health: newHealth(serverreport.Policy{Kind: kind, Plugin: settings.Plugin, FailurePolicy: settings.FailurePolicy,
				Decides: settings.Plugin}, log, counts, deps.Now),
		}
	}
	p := &Policies{
		Admission: &Admission{inForce(kinds.QueueAdmission().Name, config.DefaultAdmission, file.Backups.Admission,
			config.Hold,
			DecisionDeadline)},
		Soothing: &Soothing{inForce(kinds.LoadSoothing().Name, config.DefaultSoothing, file.NodeAgent.Soothing, config.Hold,
			DecisionDeadline)},
		Manifests: &Manifests{}, DryRuns: &Manifests{},
	}
	for _, writer := range manifestWriters(file) {
		p.Manifests.writers = append(p.Manifests.writers,
			inForce(kinds.ManifestWriter().Name, "", config.Policy(writer), config.Warn, ManifestDeadline))
	}
	p.DryRuns.writers = append(p.DryRuns.writers,
		inForce(kinds.ManifestWriter().Name, "", config.Policy(dryRunWriter(file)), config.Fail, ManifestDeadline))
	return p, nil
}

// Status returns the state of each policy.
func (p *Policies) Status() []serverreport.Policy {
	all := []serverreport.Policy{p.Admission.Status(), p.Soothing.Status()}
	return append(all, p.Manifests.Status()...)
}
