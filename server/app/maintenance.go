package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/location"
	"github.com/cleat-dev/cleat/server/internal/control/repositories"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/kube/readable"
	"github.com/cleat-dev/cleat/versioning/datamover"
)

// The defaults of maintenance in the config file.
const (
	maintainedAtOnce    = 1
	maintenanceTimeout  = 24 * time.Hour
	maintenancePatience = time.Hour
	// checkTimeout is how long a repository that is NotReady may take to open.
	checkTimeout = time.Minute
	// terminationLog is where the process of a pod says how it has ended.
	terminationLog = "/dev/termination-log"
)

// addRepositories adds the controller that has repositories maintained.
func (c *controllers) addRepositories(r *registrar) error {
	opened := newRepositories(c.cluster, c.opener, c.host, c.Log.Named("repositories"))
	settings := c.File.Maintenance
	timeout := cmp.Or(settings.Timeout.Std(), maintenanceTimeout)
	log := c.Log.Named(run.BackupRepositoryController)
	pod, err := c.ownPod()
	if err != nil {
		return err
	}
	ended := make(chan event.GenericEvent, 1)
	jobs := &repositories.Jobs{Cluster: c.cluster, Pod: pod, Timeout: timeout}
	var runner repositories.Runner = jobs
	if pod == nil {
		log.Info("the server does not run in a pod of its namespace, so it maintains repositories in its own process; if it "+
			"does, name the pod by $POD_NAME", "pod", c.Pod)
		runner = &repositories.Here{
			Jobs: jobs, Life: c.lost, Timeout: timeout, Now: time.Now, Maintain: opened.maintain,
			Ended: func(of *velerov1.BackupRepository) { ended <- event.GenericEvent{Object: of} },
		}
	}
	controller := &repositories.Controller{
		Cluster: c.cluster, Runner: runner,
		Mover: func(name string) (alone bool, err error) {
			_, err = opened.movers.Find(name)
			return c.host.HasRole(name, framework.RoleMaintainsAlone), err
		},
		Check:     opened.check,
		Frequency: c.Options.DefaultRepoMaintainFrequency, Settings: c.Options.BackupRepositoryConfigMap,
		Jobs: c.Options.RepoMaintenanceJobConfigMap, AtOnce: cmp.Or(settings.Concurrent, maintainedAtOnce),
		StartTime: c.Options.ResourceTimeout, Patience: cmp.Or(settings.Patience.Std(), maintenancePatience),
		Metrics: c.metrics, Events: c.events, Log: log, Now: time.Now,
	}
	if r.err == nil && !r.isDisabled(run.BackupRepositoryController) {
		const one = 1 // so that no more are claimed than may be maintained at once
		r.complete(run.BackupRepositoryController, controller.Setup(r.builder(run.BackupRepositoryController, one), ended),
			controller)
	}
	return nil
}

// ownPod returns the pod in which the server runs, nil if there is none.
func (c *controllers) ownPod() (*corev1.Pod, error) {
	if c.Pod == "" {
		return nil, nil //nolint:nilnil // there is none and that is right
	}
	pod := new(corev1.Pod)
	err := c.live.Get(c.lost, client.ObjectKey{Namespace: c.Namespace, Name: c.Pod}, pod)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // likewise
	}
	if apierrors.IsForbidden(err) {
		c.Log.Warn("the server cannot read its own pod, from which it makes the pods that maintain repositories",
			"pod", c.Pod, "error", err)
		return nil, nil //nolint:nilnil // likewise
	}
	if err != nil {
		return nil, fmt.Errorf("get pod %s, in which the server runs: %w", c.Pod, err)
	}
	return pod, nil
}

// maintain maintains a repository, and returns what there is to say about it.
func (r *moverRepositories) maintain(ctx context.Context, of *velerov1.BackupRepository) (string, error) {
	mover, err := r.movers.Find(repositories.MoverOf(of))
	if err != nil {
		return "", err
	}
	var done datamover.Maintained
	err = r.opener.Use(ctx, mover, of.Spec.BackupStorageLocation, of.Spec.VolumeNamespace,
		func(repository datamover.Repository) (err error) {
			done, err = mover.Maintain(ctx, datamover.Maintain{Repository: repository, Settings: of.Spec.RepositoryConfig}, nil)
			return err
		})
	if err != nil {
		return "", err
	}
	said := done.Warnings
	if done.FreedBytes > 0 {
		said = append([]string{fmt.Sprintf("%d bytes were freed", done.FreedBytes)}, said...)
	}
	return strings.Join(said, "; "), nil
}

// check returns an error unless a repository can be used.
func (r *moverRepositories) check(ctx context.Context, of *velerov1.BackupRepository) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	mover, err := r.movers.Find(repositories.MoverOf(of))
	if err != nil {
		return err
	}
	return r.opener.Use(ctx, mover, of.Spec.BackupStorageLocation, of.Spec.VolumeNamespace,
		func(repository datamover.Repository) error {
			_, err := mover.Check(ctx, datamover.Check{Repository: repository}, nil)
			return err
		})
}

// MaintainRepository maintains the repository of the BackupRepository with a name, with the plugins and the settings of
// a server. It writes what there is to say to the log of terminations, if the process is that of a pod.
func MaintainRepository(ctx context.Context, c Config, name string) error {
	said, err := maintainOnce(ctx, c, name)
	if err != nil {
		said = repositories.ErrorPrefix + err.Error()
	}
	const most = 4000 // Kubernetes has 4,096 bytes of it
	text := []byte(said)
	if _, missing := os.Stat(terminationLog); missing == nil {
		err = errors.Join(err, os.WriteFile(terminationLog, text[:min(len(text), most)], 0o600))
	}
	c.Log.Info("the maintenance of the repository has ended", "repository", name, "message", said)
	return err
}

func maintainOnce(ctx context.Context, c Config, name string) (string, error) {
	scheme, err := Scheme()
	if err != nil {
		return "", err
	}
	api, err := client.New(c.REST, client.Options{Scheme: scheme})
	if err != nil {
		return "", fmt.Errorf("connect to the API server %s: %w", c.REST.Host, err)
	}
	patience := run.Patience{For: c.Options.APIOutageTimeout, Log: c.Log.Named("api-server")}
	live := patience.Reader(readable.Reader{Reader: api, Scheme: scheme, LeftOut: leaveOut(c.Log)})
	plugins, err := NewHost(ctx, c, nil, nil, nil)
	if err != nil {
		return "", err
	}
	defer plugins.Close()
	opener, _, closeOpener, err := newOpener(c, live, location.PluginHost{Host: plugins})
	if err != nil {
		return "", err
	}
	defer closeOpener()
	var of velerov1.BackupRepository
	if err := live.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: name}, &of); err != nil {
		return "", fmt.Errorf("get BackupRepository %s: %w", name, err)
	}
	cluster := &run.Cluster{Client: api, Live: live, Namespace: c.Namespace}
	return newRepositories(cluster, opener, plugins, c.Log.Named("repositories")).maintain(ctx, &of)
}
