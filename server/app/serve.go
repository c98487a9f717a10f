package app

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	clientdiscovery "k8s.io/client-go/discovery"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/event"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/server/internal/bucket/download"
	"github.com/cleat-dev/cleat/server/internal/bucket/location"
	"github.com/cleat-dev/cleat/server/internal/control/policy"
	"github.com/cleat-dev/cleat/server/internal/control/requests"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
	"github.com/cleat-dev/cleat/server/internal/kube/loadkey"
	"github.com/cleat-dev/cleat/server/internal/kube/readable"
	"github.com/cleat-dev/cleat/server/internal/kube/signing"
	"github.com/cleat-dev/cleat/server/internal/spec/config"
	"github.com/cleat-dev/cleat/versioning/objectstore"
	"github.com/cleat-dev/cleat/versioning/volumesnapshotter"
)

// Config is the configuration of a server.
type Config struct {
	REST      *rest.Config
	Namespace string
	Options   config.Options // complete
	File      *config.File   // the file that --config names; the zero value without one
	Version   string
	Pod       string // name of the pod in which the server runs, if it runs in one
	BuiltIns  []framework.Registration
	// Self is the path of the server's binary, PluginArgs are its arguments, which plugins get as well.
	Self       string
	PluginArgs []string
	Log        hclog.Logger

	logs *run.Logs // of backups and restores; nil without a server
	// renewed is called after files have changed that plugins may have read, such as credentials; nil without a server.
	renewed func()
}

// Serve runs the server until ctx ends; running backups and restores then get their grace period. It checks the
// namespace and the resource definitions, finds the plugins, waits until it leads, and starts the controllers, which
// take up the backups and restores that a former server left in progress.
func Serve(ctx context.Context, c Config) error {
	identity := run.NewIdentity(host())
	leader, err := newLeadership(c, identity)
	if err != nil {
		return err
	}
	fence := leader.fence
	c.REST = fence.Config(c.REST) // for all but the lease
	mgr, err := newManager(c, c.Options.ShutdownGracePeriod+run.FinalWrites+5*time.Second, nil)
	if err != nil {
		return err
	}
	patience := run.Patience{For: c.Options.APIOutageTimeout, Log: c.Log.Named("api-server")}
	live := patience.Reader(readable.Reader{Reader: mgr.GetAPIReader(), Scheme: mgr.GetScheme(), LeftOut: leaveOut(c.Log)})
	discoverer, err := clientdiscovery.NewDiscoveryClientForConfig(c.REST)
	if err != nil {
		return fmt.Errorf("make a discovery client: %w", err)
	}
	if err := checkNamespace(ctx, live, c.Namespace); err != nil {
		return err
	}
	if err := checkDefinitions(ctx, discoverer, patience); err != nil {
		return err
	}
	spans, stopSpans, err := tracer(ctx, c)
	if err != nil {
		return err
	}
	defer stopSpans()
	registry := prometheus.NewRegistry()
	c.logs = &run.Logs{JSON: c.Options.LogFormat == "json", Server: c.Log, Now: time.Now}
	renewed := make(chan struct{}, 1)
	c.renewed = func() {
		select {
		case renewed <- struct{}{}:
		default: // the locations have yet to be validated after the last one
		}
	}
	pluginsChanged := make(chan event.GenericEvent, 1)
	plugins, err := NewHost(ctx, c, registry, spans, func() {
		select {
		case pluginsChanged <- event.GenericEvent{}:
		default: // the queue has yet to handle the last one
		}
	})
	if err != nil {
		return err
	}
	defer plugins.Close()
	policies, err := policy.New(c.File, policy.Deps{Host: plugins, Log: c.Log.Named("policies"), Metrics: registry,
		Now: time.Now})
	if err != nil {
		return err
	}

	opener, scratchDir, closeOpener, err := newOpener(c, live, fencedHost{Host: location.PluginHost{Host: plugins},
		fence: fence})
	if err != nil {
		return err
	}
	defer closeOpener()

	downloads, err := c.Options.DownloadBase()
	if err != nil {
		return err
	}
	var local *url.URL
	var localListener net.Listener
	if downloads == nil {
		if localListener, local = localDownloads(ctx, c.Log); localListener != nil {
			defer localListener.Close() //nolint:errcheck // it was closed by then, unless nothing was served
		}
	}

	signingKeys := signing.Open(live, mgr.GetClient(), c.Namespace, time.Now)
	keys := loadkey.New(signingKeys)
	err = addControllers(mgr, c, services{
		identity: identity, signing: signingKeys, keys: keys, lost: fence.Lost(), live: live, host: plugins,
		pluginsChanged: pluginsChanged, storesRenewed: renewed, policies: policies, opener: opener,
		discoverer: discoverer, scratch: scratchDir, registry: registry, downloads: downloads, localDownloads: local,
	})
	if err != nil {
		return err
	}
	endpoints := newEndpoints(c.Options, prometheus.Gatherers{registry, ctrlmetrics.Registry}, mgr.GetCache(), c.Log)
	if downloads != nil || local != nil {
		endpoints.downloadListener = localListener
		cluster := &run.Cluster{Live: live, Namespace: c.Namespace}
		endpoints.downloads = &download.Server{
			Client: cluster.Live, Namespace: c.Namespace,
			// requests of anyone neither wait for the API server nor write to it
			Keys: signing.Open(mgr.GetAPIReader(), nil, c.Namespace, time.Now),
			Open: requests.Open(cluster, opener), Log: c.Log.Named("downloads"), Now: time.Now,
		}
	}
	work := func(ctx context.Context) error {
		disabled := c.Options.Disabled()
		recovery := run.Recovery{
			Cluster: &run.Cluster{Client: mgr.GetClient(), Live: live, Namespace: c.Namespace},
			Backups: slices.Contains(disabled, run.BackupController), Restores: slices.Contains(disabled, run.RestoreController),
			Log: c.Log.Named(run.RecoveryController), Now: time.Now,
		}
		_, err := keys.Of(ctx, operation.OfBackup, "") // which creates the secret, for the agents
		if err == nil {
			if err = recovery.Run(ctx); err != nil {
				err = fmt.Errorf("fail what a former server left in progress: %w", err)
			}
		}
		switch {
		case ctx.Err() != nil:
			return nil // stopped before it has worked
		case err != nil:
			return err
		}
		warnOfPassword(ctx, live, c)
		c.Log.Info("server started", "version", c.Version, "namespace", c.Namespace)
		endpoints.setWorking()
		if err := mgr.Start(ctx); err != nil {
			return fmt.Errorf("run the controllers: %w", err)
		}
		return nil
	}
	if c.Options.LeaderElect {
		controllers := work
		work = func(ctx context.Context) error { return leader.run(ctx, controllers) }
	}
	if err := endpoints.during(ctx, work); err != nil {
		return err
	}
	c.Log.Info("server stopped")
	return nil
}

// newLeadership returns the election of the server, before c.REST is fenced. Without one, its fence is always open.
func newLeadership(c Config, identity string) (*leadership, error) {
	if !c.Options.LeaderElect {
		return &leadership{fence: run.NewFence(0)}, nil
	}
	client, err := coordinationv1.NewForConfig(c.REST)
	if err != nil {
		return nil, fmt.Errorf("make a client for leases: %w", err)
	}
	lease := c.Options.LeaderElectLeaseDuration
	return &leadership{
		leases: client.Leases(c.Namespace), identity: identity, lease: lease, fence: run.NewFence(fenceOpen(lease)),
		log: c.Log.Named("leader-election"),
	}, nil
}

// fencedHost is a plugin host whose object stores and snapshotters wait for the fence.
type fencedHost struct {
	location.Host
	fence *run.Fence
}

// ObjectStore implements location.Host.
func (h fencedHost) ObjectStore(
	ctx context.Context, location, provider string, config map[string]string,
) (objectstore.Store, error) {
	objects, err := h.Host.ObjectStore(ctx, location, provider, config)
	if err != nil {
		return nil, err
	}
	return h.fence.Store(objects), nil
}

// VolumeSnapshotter implements location.Host.
func (h fencedHost) VolumeSnapshotter(
	ctx context.Context, location, provider string, config map[string]string,
) (volumesnapshotter.Snapshotter, error) {
	snapshotter, err := h.Host.VolumeSnapshotter(ctx, location, provider, config)
	if err != nil {
		return nil, err
	}
	return h.fence.Snapshotter(snapshotter), nil
}
