package app

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	clientdiscovery "k8s.io/client-go/discovery"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/location"
	"github.com/cleat-dev/cleat/server/internal/control"
	"github.com/cleat-dev/cleat/server/internal/control/policy"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/server/internal/kube/csisnapshots"
	"github.com/cleat-dev/cleat/server/internal/kube/loadkey"
	"github.com/cleat-dev/cleat/server/internal/kube/signing"
	"github.com/cleat-dev/cleat/server/internal/node"
	"github.com/cleat-dev/cleat/server/internal/node/expose"
	"github.com/cleat-dev/cleat/server/internal/node/ledger"
	"github.com/cleat-dev/cleat/server/internal/node/loadpod"
	"github.com/cleat-dev/cleat/server/internal/node/repository"
	"github.com/cleat-dev/cleat/server/internal/node/settings"
	"github.com/cleat-dev/cleat/server/internal/spec/config"
	"github.com/cleat-dev/cleat/server/internal/spec/maintenance"
	"github.com/cleat-dev/cleat/versioning/datamover"
	"github.com/cleat-dev/cleat/versioning/kinds"
)

// NodeAgent has the settings that a node agent has in addition to a server.
type NodeAgent struct {
	Node           string
	ConfigMap      string   // with settings; empty for none
	Namespaces     []string // whose volumes may be opened; empty means all
	HostPods       string   // the kubelet's directory of pods
	Pod            string   // name of the pod in which the agent runs, for the exposure of volumes
	PrepareTimeout time.Duration
	MoveInPods     bool // move each load in a pod of its own, if the agent runs in a pod
}

// ServeNodeAgent runs the agent of a node until ctx ends. The next agent continues its loads.
func ServeNodeAgent(ctx context.Context, c Config, agent NodeAgent) error {
	patience := run.Patience{For: c.Options.APIOutageTimeout, Log: c.Log.Named("api-server")}
	mgr, err := newAgentManager(c, agent)
	if err != nil {
		return err
	}
	live := patience.Reader(mgr.GetAPIReader())
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
	configured, warnings, err := agentSettings(ctx, live, c.Namespace, &c.Options, agent)
	if err != nil {
		return err
	}
	for _, warning := range warnings {
		c.Log.Warn(warning)
	}
	pod, err := agentPod(ctx, c, live, agent.Pod)
	if err != nil {
		return err
	}
	cluster := &run.Cluster{Client: mgr.GetClient(), Live: live, Namespace: c.Namespace}
	pods := loadPods(c, cluster, agent, configured, pod)
	for _, key := range configured.WithoutEffect(pod != nil, pods != nil) {
		c.Log.Warn(fmt.Sprintf("ConfigMap %s/%s: %s has no effect", c.Namespace, agent.ConfigMap, key))
	}
	warnOfPassword(ctx, live, c)
	limit, err := nodeLimit(ctx, c, live, agent.Node, configured.Settings)
	if err != nil {
		return err
	}

	registry := prometheus.NewRegistry()
	c.File = agentFile(c.File)
	plugins, err := NewHost(ctx, c, registry, nil, nil)
	if err != nil {
		return err
	}
	defer plugins.Close()
	policies, err := policy.New(c.File, policy.Deps{Host: plugins, Log: c.Log.Named("policies"), Metrics: registry,
		Now: time.Now})
	if err != nil {
		return err
	}
	opener, _, closeOpener, err := newOpener(c, live, location.PluginHost{Host: plugins})
	if err != nil {
		return err
	}
	defer closeOpener()

	collected, err := node.NewMetrics(registry, agent.Node, limit)
	if err != nil {
		return err
	}
	identity := run.NewIdentity(agent.Node)
	signingKeys := signing.Open(live, nil, c.Namespace, time.Now)
	a := &node.Agent{
		Cluster: cluster, Node: agent.Node, Identity: identity, HostPods: agent.HostPods, Namespaces: agent.Namespaces,
		Limit: limit, QueueLength: configured.LoadConcurrency.PrepareQueueLength,
		Signing: signingKeys,
		Keys:    loadkey.New(signingKeys),
		Movers:  newEnclosedMovers(c, plugins, limit),
		Pods:    pods,
		Repositories: &repository.Opener{Cluster: cluster, Locations: opener, Identity: identity, Now: time.Now,
			Log: c.Log.Named("repositories")},
		PrepareTimeout: agent.PrepareTimeout, StoreOutage: c.Options.StoreOutageTimeout,
		Metrics: collected, Events: mgr.GetEventRecorder("cleat-node-agent"), Log: c.Log.Named("node-agent"),
		Now: time.Now,
	}
	if pod != nil {
		a.Exposers = exposers(c, cluster, configured.Settings, pod)
	}
	if soothes(c.File, configured.Settings) {
		a.Soothing, a.Describe = policies.Soothing, namesSoothing(c.File)
	}
	build := func(name string, workers int) *ctrl.Builder {
		return control.NewBuilder(mgr, name, workers, NewLogr(c.Log.Named(name)))
	}
	endpoints := newEndpoints(c.Options, prometheus.Gatherers{registry, ctrlmetrics.Registry}, mgr.GetCache(), c.Log)
	err = endpoints.during(ctx, func(ctx context.Context) error {
		if err := a.AddTo(ctx, mgr, build); err != nil {
			return err
		}
		c.Log.Info("node agent started", "version", c.Version, "namespace", c.Namespace, "node", agent.Node, "loads at once",
			limit)
		endpoints.setWorking()
		if err := mgr.Start(ctx); err != nil {
			return fmt.Errorf("run the controllers: %w", err)
		}
		return nil
	})
	if err == nil {
		c.Log.Info("node agent stopped")
	}
	return err
}

// newAgentManager returns a manager whose cache has the loads of the namespace, the ledger of the agents, and the pods
// of the node, in the namespaces that the agent may open and in its own, which has the pods that expose volumes.
func newAgentManager(c Config, agent NodeAgent) (ctrl.Manager, error) {
	namespaces := map[string]cache.Config{cache.AllNamespaces: {}}
	if len(agent.Namespaces) > 0 {
		namespaces = map[string]cache.Config{c.Namespace: {}}
		for _, namespace := range agent.Namespaces {
			namespaces[namespace] = cache.Config{}
		}
	}
	return newManager(c, 5*time.Second, map[client.Object]cache.ByObject{
		&corev1.Pod{}: {
			Namespaces: namespaces,
			Field:      fields.OneTermEqualSelector("spec.nodeName", agent.Node),
		},
		&corev1.ConfigMap{}: {Field: fields.OneTermEqualSelector("metadata.name", ledger.Name)},
	})
}

// agentFile returns the part of a configuration file that concerns a node agent, which need not have the plugins of the
// server.
func agentFile(file *config.File) *config.File {
	part := *file
	part.Backups, part.Restores, part.Operations = config.File{}.Backups, config.File{}.Restores, config.File{}.Operations
	return &part
}

// settingsOfAgent are what ConfigMaps say to an agent.
type settingsOfAgent struct {
	*settings.Settings
	cacheLimitMB int64 // of repositories; 0 if it is not set
}

// agentSettings reads the ConfigMaps of an agent. The warnings say what has no effect.
func agentSettings(
	ctx context.Context, reader client.Reader, namespace string, o *config.Options, agent NodeAgent,
) (s settingsOfAgent, warnings []string, err error) {
	s.Settings = &settings.Settings{}
	cm, err := configMap(ctx, reader, namespace, "node-agent-configmap", agent.ConfigMap)
	if err == nil && cm != nil {
		s.Settings, warnings, err = settings.Parse(cm)
	}
	if err != nil {
		return s, nil, err
	}
	if s.CachePVC != nil {
		if why := unfit(ctx, reader, s.CachePVC.StorageClass); why != "" {
			warnings = append(warnings, fmt.Sprintf("ConfigMap %s/%s: cachePVC is ignored: %s", namespace, agent.ConfigMap,
				why))
			s.CachePVC = nil
		}
	}
	cm, err = configMap(ctx, reader, namespace, "backup-repository-configmap", o.BackupRepositoryConfigMap)
	if err == nil && cm != nil {
		var repository map[string]string
		if repository, err = maintenance.ParseRepository(cm, velerov1.RepositoryTypeKopia); err == nil {
			s.cacheLimitMB, err = maintenance.CacheLimit(repository)
		}
	}
	return s, warnings, err
}

// configMap reads the ConfigMap that a flag names. It returns nil if the name is empty.
func configMap(ctx context.Context, reader client.Reader, namespace, flag, name string) (*corev1.ConfigMap, error) {
	if name == "" {
		return nil, nil //nolint:nilnil // none is a valid setting
	}
	cm := new(corev1.ConfigMap)
	err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, cm)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("ConfigMap %s/%s, see --%s, does not exist", namespace, name, flag)
	}
	if err != nil {
		return nil, fmt.Errorf("get ConfigMap %s/%s, see --%s: %w", namespace, name, flag, err)
	}
	return cm, nil
}

// unfit returns why volumes of a storage class cannot be those of pods that move data, "" if they can be: a class that
// keeps the volumes of deleted claims would keep one for each load.
func unfit(ctx context.Context, reader client.Reader, name string) string {
	var class storagev1.StorageClass
	if err := reader.Get(ctx, client.ObjectKey{Name: name}, &class); err != nil {
		return fmt.Sprintf("get storage class %s: %v", name, err)
	}
	if policy := class.ReclaimPolicy; policy != nil && *policy != corev1.PersistentVolumeReclaimDelete {
		return fmt.Sprintf("the reclaim policy of storage class %s is %s, want %s", name, *policy,
			corev1.PersistentVolumeReclaimDelete)
	}
	return ""
}

// agentPod returns the pod in which the agent runs, nil if there is none: then the agent exposes no volumes.
func agentPod(ctx context.Context, c Config, live client.Reader, name string) (*corev1.Pod, error) {
	pod := new(corev1.Pod)
	err := live.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: name}, pod)
	if apierrors.IsNotFound(err) {
		c.Log.Warn("the agent does not run in a pod of its namespace, so it exposes no volumes for DataUploads and "+
			"DataDownloads; somebody else has to. If it does, name the pod with --pod-name or $POD_NAME", "pod", name)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get pod %s, in which the agent runs: %w", name, err)
	}
	return pod, nil
}

// loadPods returns what moves loads in pods of their own, nil if this agent moves them itself.
func loadPods(
	c Config, cluster *run.Cluster, agent NodeAgent, configured settingsOfAgent, pod *corev1.Pod,
) *loadpod.Pods {
	if !agent.MoveInPods || pod == nil {
		return nil
	}
	pods := &loadpod.Pods{Cluster: cluster, Agent: pod, Settings: configured.Settings, ConfigMap: agent.ConfigMap,
		HostPods: agent.HostPods, StateDir: stateBase(c), CacheLimitMB: configured.cacheLimitMB}
	if err := pods.Check(); err != nil {
		c.Log.Warn("the agent moves data in its own pod, because it cannot make pods like its own: a load begins again "+
			"when the agent is replaced", "pod", pod.Name, "error", err)
		return nil
	}
	if configured.CachePVC != nil && !pods.CanCache() {
		c.Log.Warn("cachePVC has no effect: want a volume of the agent's pod, of which it replaces the one in pods of "+
			"restores, at the directory of temporary files, see --scratch-dir", "pod", pod.Name, "directory", pods.StateDir)
	}
	return pods
}

// exposers returns what makes the volumes of DataUploads and DataDownloads accessible.
func exposers(c Config, cluster *run.Cluster, configured *settings.Settings, pod *corev1.Pod) map[string]node.Exposer {
	volumes := &expose.Volumes{
		Cluster: cluster, Settings: configured, Agent: pod,
		Snapshots: csisnapshots.New(c.REST, nil, nil, c.Namespace, nil),
	}
	return map[string]node.Exposer{"DataUpload": expose.Uploads{Volumes: volumes},
		"DataDownload": expose.Downloads{Volumes: volumes}}
}

// nodeLimit returns how many loads are moved at once on a node.
func nodeLimit(
	ctx context.Context, c Config, live client.Reader, node string, configured *settings.Settings,
) (int, error) {
	var of corev1.Node
	err := live.Get(ctx, client.ObjectKey{Name: node}, &of)
	if apierrors.IsNotFound(err) {
		return 0, fmt.Errorf("node %q does not exist; name the node of this agent with --node-name or $NODE_NAME", node)
	}
	if err != nil {
		return 0, fmt.Errorf("get node %s: %w", node, err)
	}
	limit, why := configured.LoadConcurrency.NodeLimit(of.Labels)
	c.Log.Info("the limit of this node is known", "loads at once", limit, "by", why)
	return limit, nil
}

// soothes reports whether a policy is asked: without a limit, the built-in one would admit every load.
func soothes(file *config.File, configured *settings.Settings) bool {
	return namesSoothing(file) || len(file.NodeAgent.Soothing.Config.JSON) > 0 ||
		configured.LoadConcurrency.PrepareQueueLength > 0
}

// namesSoothing reports whether the configuration names a policy that is not the built-in one.
func namesSoothing(file *config.File) bool {
	name := file.NodeAgent.Soothing.Plugin
	return name != "" && name != config.DefaultSoothing
}

// movers finds the data movers of the host of a server, which has no volumes of pods.
type movers struct{ host *pluginhost.Host }

// Find returns the mover with a name.
func (m movers) Find(name string) (datamover.Mover, error) {
	return pluginhost.Named(m.host, kinds.DataMover(), name)
}
