package app

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/handler"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/trust"
	"github.com/cleat-dev/cleat/server/internal/control/rehearsals"
	"github.com/cleat-dev/cleat/server/internal/control/restores"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/engine/hook"
	"github.com/cleat-dev/cleat/server/internal/engine/restore"
	"github.com/cleat-dev/cleat/server/internal/engine/restore/plan"
	"github.com/cleat-dev/cleat/server/internal/spec/config"
	"github.com/cleat-dev/cleat/server/internal/spec/enclosure"
)

// restores returns the controller that runs restores.
func (c *controllers) restores(hooks *hook.Restores) (*restores.Controller, error) {
	engine, err := c.restoreEngine()
	if err != nil {
		return nil, err
	}
	return &restores.Controller{
		Trust:                restores.Trust{Required: c.requiredKeys(), Accepted: c.trusted.Ring},
		Cluster:              c.cluster,
		Runs:                 c.restoreRuns,
		Stores:               c.opener,
		StoreOutage:          c.Options.StoreOutageTimeout,
		Plugins:              c.host,
		Engine:               engine,
		Accounts:             &c.restoring,
		References:           c.references,
		Hooks:                hooks,
		ItemOperationTimeout: c.Options.DefaultItemOperationTimeout,
		DefaultModifiers:     c.Options.DefaultModifiersConfigMap,
		AllVersions:          c.Options.HasFeature(config.EnableAPIGroupVersions),
		LogOptions:           c.runLogs,
		Logs:                 c.logs,
		SpoolDir:             c.scratch,
		Slots:                restores.NewSlots(c.Options.ConcurrentRestores),
		Journals:             c.journals,
		Monitor:              c.following.Monitor,
		Volumes:              c.volumes,
		Events:               c.events,
		Metrics:              c.metrics,
		Log:                  c.Log.Named(run.RestoreController),
		Now:                  time.Now,
	}, nil
}

// restoreDryRuns returns the controller of dry runs of restores. It starts from a copy of the controller of restores.
func (c *controllers) restoreDryRuns(restoring restores.Controller) *restores.DryRuns {
	restoring.Journals, restoring.Monitor, restoring.Hooks, restoring.Logs, restoring.Slots = nil, nil, nil, nil, nil
	restoring.Log = c.Log.Named(run.RestoreDryRunController)
	return &restores.DryRuns{Controller: &restoring, Harmless: c.File.Plugins.DryRun}
}

// addRehearsals adds the controllers of rehearsals. It starts from a copy of the controller of restores.
func (c *controllers) addRehearsals(r *registrar, restoring restores.Controller, stop handler.EventHandler) error {
	if r.isDisabled(run.RehearsalController) || !r.needs(run.RehearsalController, run.RestoreController) {
		return r.err
	}
	settings := c.File.Restores.Rehearsals.WithDefaults()
	executor, err := hook.NewExecutor(c.REST, c.Options.APIOutageTimeout)
	if err != nil {
		return err
	}
	restoring.Log = c.Log.Named(run.RehearsalRestoreController)
	proofs := rehearsals.Proofs{Keys: c.signing, Namespace: c.Namespace}
	restoring.MadeFor = proofs.Made
	restoring.Enclose = func(restore *velerov1.Restore) enclosure.Rules {
		return enclosure.Rules{Restore: string(restore.UID), CustomResources: settings.CustomResources,
			Namespaces: slices.Sorted(maps.Values(restore.Spec.NamespaceMapping))}
	}
	vouched := rehearsals.Vouched{Cluster: c.cluster, Stores: c.opener, Ring: c.trusted.Ring, SpoolDir: c.scratch}
	restoring.Slots = restores.NewSlots(settings.Concurrent)
	r.add(run.RehearsalRestoreController, &velerov1.Restore{}, settings.Concurrent+restores.MaxWaiting, &restoring, stop)
	r.add(run.RehearsalController, &velerov1.Restore{}, lightWorkers, &rehearsals.Controller{
		Vouched:     vouched,
		StoreOutage: c.Options.StoreOutageTimeout,
		Executor:    executor,
		Proofs:      proofs,
		Settings:    settings,
		Metrics:     c.metrics,
		Sign:        c.signer().Report,
		Log:         c.Log.Named(run.RehearsalController),
		Now:         time.Now,
	}, nil)
	r.add(run.RehearsalScheduleController, &velerov1.Schedule{}, lightWorkers, &rehearsals.Schedules{
		Vouched: vouched,
		Events:  c.events,
		Log:     c.Log.Named(run.RehearsalScheduleController),
		Now:     time.Now,
	}, nil)
	sweep := &rehearsals.Sweep{Cluster: c.cluster, Proofs: proofs, Log: c.Log.Named(run.RehearsalController)}
	if err := c.mgr.Add(sweep); err != nil {
		return fmt.Errorf("add the sweep of rehearsals: %w", err)
	}
	return r.err
}

// restoreFinalizer returns the controller that completes restores whose operations have ended.
func (c *controllers) restoreFinalizer(hooks *hook.Restores) *restores.Finalizer {
	hub := *c.volumes
	if !c.Options.HasFeature(config.EnableCSI) {
		hub.CSI = nil
	}
	return &restores.Finalizer{
		Trust:           restores.Trust{Required: c.requiredKeys(), Accepted: c.trusted.Ring},
		Cluster:         c.cluster,
		Runs:            c.restoreRuns,
		Stores:          c.opener,
		Hooks:           hooks,
		Volumes:         &hub,
		ResourceTimeout: c.Options.ResourceTimeout,
		LogOptions:      c.runLogs,
		Logs:            c.logs,
		Metrics:         c.metrics,
		StoreOutage:     c.Options.StoreOutageTimeout,
		Log:             c.Log.Named(run.RestoreFinalizerController),
		Now:             time.Now,
	}
}

// requiredKeys returns the keys of which one must have signed a backup; nil if a signature is not required.
func (c *controllers) requiredKeys() func(context.Context) trust.Ring {
	if !c.File.Restores.RequireSignature {
		return nil
	}
	return c.trusted.Ring
}

// addHooks adds the hooks of restored pods to the manager.
func (c *controllers) addHooks() (*hook.Restores, error) {
	executor, err := hook.NewExecutor(c.REST, c.Options.APIOutageTimeout)
	if err != nil {
		return nil, err
	}
	hooks := hook.NewRestores(c.lost, executor, c.Options.ShutdownGracePeriod)
	if err := c.mgr.Add(hooks); err != nil {
		return nil, fmt.Errorf("add the hooks of restores: %w", err)
	}
	return hooks, nil
}

func (c *controllers) restoreEngine() (restores.Engine, error) {
	priorities, err := plan.ParsePriorities(c.Options.RestoreResourcePriorities)
	if err != nil {
		return nil, fmt.Errorf("--restore-resource-priorities: %w", err)
	}
	deps := restore.Deps{
		Config:    c.REST,
		Discovery: c.resources,
		Keys:      c.keys,
		Roles:     c.host.HasRole,
		Options: restore.Options{
			Priorities:         priorities,
			Workers:            c.Options.RestoreWorkers,
			ResourceTimeout:    c.Options.ResourceTimeout,
			TerminatingTimeout: c.Options.TerminatingResourceTimeout,
			EnableCSI:          c.Options.HasFeature(config.EnableCSI),
			Pod:                podName(),
			OutageTimeout:      c.Options.APIOutageTimeout,
		},
	}
	return func(ctx context.Context, req restore.Request) (*restore.Result, error) {
		return restore.Run(ctx, deps, req)
	}, nil
}

// podName returns the name of the pod that this server runs in, "" if it runs in none. The hostname of a pod is its
// name.
func podName() string {
	if pod := os.Getenv("POD_NAME"); pod != "" || os.Getenv("KUBERNETES_SERVICE_HOST") == "" {
		return pod
	}
	host, _ := os.Hostname()
	return host
}
