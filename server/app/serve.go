package app

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	clientdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/event"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/server/config"
	"github.com/cleat-dev/cleat/server/location"
	"github.com/cleat-dev/cleat/server/policy"
	"github.com/cleat-dev/cleat/server/run"
)

// Config is the configuration of a server.
type Config struct {
	REST      *rest.Config
	Namespace string
	Options   config.Options // complete
	File      *config.File   // the file that --config names; the zero value without one
	Version   string
	BuiltIns  []framework.Registration
	// Self is the path of the server's binary, PluginArgs are its arguments, which plugins get as well.
	Self       string
	PluginArgs []string
	Log        hclog.Logger
}

// Serve runs the server until ctx ends; backups and restores at work then get their grace period. It checks the
// namespace and the resource definitions, finds the plugins, waits until it leads, fails the backups and restores that a
// former server left in progress, and starts the controllers.
func Serve(ctx context.Context, c Config) error {
	mgr, err := newManager(c)
	if err != nil {
		return err
	}
	discoverer, err := clientdiscovery.NewDiscoveryClientForConfig(c.REST)
	if err != nil {
		return fmt.Errorf("make a discovery client: %w", err)
	}
	if err := checkNamespace(ctx, mgr.GetAPIReader(), c.Namespace); err != nil {
		return err
	}
	if err := checkDefinitions(ctx, discoverer); err != nil {
		return err
	}
	spans, stopSpans, err := tracer(ctx, c)
	if err != nil {
		return err
	}
	defer stopSpans()
	registry := prometheus.NewRegistry()
	pluginsChanged := make(chan event.GenericEvent, 1)
	host, err := NewHost(ctx, c, registry, spans, func() {
		select {
		case pluginsChanged <- event.GenericEvent{}:
		default: // the queue has yet to handle the last one
		}
	})
	if err != nil {
		return err
	}
	defer host.Close()
	policies, err := policy.New(c.File, policy.Deps{Host: host, Log: c.Log.Named("policies"), Metrics: registry, Now: time.Now})
	if err != nil {
		return err
	}

	scratch, err := scratchDir(c.Options.ScratchDir)
	if err != nil {
		return err
	}
	opener := location.NewOpener(mgr.GetAPIReader(), host, filepath.Join(scratch, "credentials"))
	defer func() {
		if err := opener.Close(); err != nil {
			c.Log.Warn("credentials of backup storage locations could not be removed", "error", err)
		}
	}()

	lost, lose := context.WithCancel(context.WithoutCancel(ctx))
	defer lose()
	err = addControllers(mgr, c, services{
		lost: lost, host: host, pluginsChanged: pluginsChanged, policies: policies, opener: opener,
		discoverer: discoverer, scratch: scratch, registry: registry,
	})
	if err != nil {
		return err
	}
	endpoints := newEndpoints(c.Options, prometheus.Gatherers{registry, ctrlmetrics.Registry}, mgr.GetCache(), c.Log)
	work := func(ctx context.Context) error {
		recovery := run.Recovery{
			Cluster: &run.Cluster{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Namespace: c.Namespace},
			Log:     c.Log.Named(run.RecoveryController), Now: time.Now,
		}
		if err := recovery.Run(ctx); err != nil {
			return fmt.Errorf("fail what a former server left in progress: %w", err)
		}
		c.Log.Info("server started", "version", c.Version, "namespace", c.Namespace)
		endpoints.setWorking()
		if err := mgr.Start(ctx); err != nil {
			return fmt.Errorf("run the controllers: %w", err)
		}
		return nil
	}
	if c.Options.LeaderElect {
		leader := leadership{lose: lose, rest: c.REST, namespace: c.Namespace, lease: c.Options.LeaderElectLeaseDuration, log: c.Log.Named("leader-election")}
		controllers := work
		work = func(ctx context.Context) error { return leader.run(ctx, controllers) }
	}
	if err := endpoints.during(ctx, work); err != nil {
		return err
	}
	c.Log.Info("server stopped")
	return nil
}

// scratchDir returns the directory of temporary files, which it creates if necessary.
func scratchDir(configured string) (string, error) {
	dir := configured
	if dir == "" {
		dir = os.Getenv("VELERO_SCRATCH_DIR")
	}
	if dir == "" {
		dir = os.TempDir()
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", fmt.Errorf("create the directory of temporary files, see --scratch-dir: %w", err)
	}
	return dir, nil
}
