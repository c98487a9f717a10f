package policy

import (
	"cmp"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cleat-dev/cleat/plugins/loadsoothing/limit"
	"github.com/cleat-dev/cleat/plugins/queueadmission/namespaceoverlap"
	"github.com/cleat-dev/cleat/server/config"
	"github.com/cleat-dev/cleat/server/pluginhost"
	"github.com/cleat-dev/cleat/server/status/serverreport"
	"github.com/cleat-dev/cleat/versioning/kinds"
)

// The built-in policies, which decide where the configuration names no others, and instead of those that fail with
// failurePolicy UseBuiltIn.
const (
	BuiltInAdmission = namespaceoverlap.Name
	BuiltInSoothing  = limit.Name
)

// What holds where the configuration says nothing.
const (
	DecisionDeadline = 10 * time.Second
	ManifestDeadline = 10 * time.Minute // without progress
)

// Deps is what the policies need. All but Metrics is required.
type Deps struct {
	Host    *pluginhost.Host
	Log     hclog.Logger
	Metrics prometheus.Registerer // gets what begins with "cleat_policy_"; nil: none
	Now     func() time.Time
}

// Policies holds the policies in force.
type Policies struct {
	Admission *Admission
	Soothing  *Soothing
	Manifests *Manifests
}

// Plugins returns the names of the plugins that the policies of a file ask, by kind.
func Plugins(file *config.File) map[string][]string {
	plugins := map[string][]string{}
	add := func(kind, builtIn string, settings config.Policy) {
		name := cmp.Or(settings.Plugin, builtIn)
		plugins[kind] = append(plugins[kind], name)
		if settings.FailurePolicy == config.UseBuiltIn && name != builtIn {
			plugins[kind] = append(plugins[kind], builtIn)
		}
	}
	add(kinds.QueueAdmission().Name, BuiltInAdmission, file.Backups.Admission)
	add(kinds.LoadSoothing().Name, BuiltInSoothing, file.NodeAgent.Soothing)
	for _, writer := range file.Backups.ManifestWriters {
		add(kinds.ManifestWriter().Name, "", config.Policy(writer))
	}
	return plugins
}

// New returns the policies of a file. Each call finds out whether their plugins exist; a server has made sure of that before
// it starts, see config.File.Check.
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
			health: newHealth(serverreport.Policy{Kind: kind, Plugin: settings.Plugin, FailurePolicy: settings.FailurePolicy, Decides: settings.Plugin}, log, counts, deps.Now),
		}
	}
	p := &Policies{
		Admission: &Admission{inForce(kinds.QueueAdmission().Name, BuiltInAdmission, file.Backups.Admission, config.Hold, DecisionDeadline)},
		Soothing:  &Soothing{inForce(kinds.LoadSoothing().Name, BuiltInSoothing, file.NodeAgent.Soothing, config.Hold, DecisionDeadline)},
		Manifests: &Manifests{},
	}
	for _, writer := range file.Backups.ManifestWriters {
		p.Manifests.writers = append(p.Manifests.writers,
			inForce(kinds.ManifestWriter().Name, "", config.Policy(writer), config.Warn, ManifestDeadline))
	}
	return p, nil
}

// Status returns how each policy works.
func (p *Policies) Status() []serverreport.Policy {
	all := []serverreport.Policy{p.Admission.Status(), p.Soothing.Status()}
	return append(all, p.Manifests.Status()...)
}
