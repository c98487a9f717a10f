package main_test

import (
	"bytes"
	"context"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/velero"
)

// heldFinalizer keeps the pod of a server until its process has ended, as a kubelet does.
const heldFinalizer = "test.cleat.dev/process"

// holdPods keeps the pods of a Deployment's server when they are deleted. It returns what lets them go.
func (s *site) holdPods(labels client.MatchingLabels) (release func()) {
	s.t.Helper()
	set := func(finalizers string) (n int) {
		var pods corev1.PodList
		require.NoError(s.t, s.client.List(s.t.Context(), &pods, client.InNamespace(s.namespace), labels))
		for i := range pods.Items {
			patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":`+finalizers+`}}`))
			require.NoError(s.t, client.IgnoreNotFound(s.client.Patch(s.t.Context(), &pods.Items[i], patch)))
		}
		return len(pods.Items)
	}
	s.eventually("there is a pod of the server",
		func(context.Context) (bool, error) { return set(`["`+heldFinalizer+`"]`) > 0, nil })
	return func() { set("null") }
}

// awaitReplicas waits until a Deployment has so many pods by its spec and its controller has seen that, and returns it.
func (s *site) awaitReplicas(name string, n int32) *appsv1.Deployment {
	s.t.Helper()
	var d appsv1.Deployment
	s.eventually("Deployment "+name+" is scaled", func(ctx context.Context) (bool, error) {
		err := s.client.Get(ctx, s.key(name), &d)
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return *d.Spec.Replicas == n && d.Status.ObservedGeneration == d.Generation, err
	})
	return &d
}

// background starts a command that waits for what the test does meanwhile. The returned function waits for its end.
func (s *site) background(args ...string) (end func() string) {
	s.t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(s.t.Context(), cleat(s.t), append(args, "--kubeconfig", s.kubeconfig, "--namespace",
		s.namespace)...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	require.NoError(s.t, cmd.Start())
	return func() string {
		s.t.Helper()
		require.NoError(s.t, cmd.Wait(), "cleat %s\n%s%s", strings.Join(args, " "), &out, &errs)
		return out.String()
	}
}

// TestAcceptInstall_TakeOver takes over an installation of Velero's client, in which a backup runs and another one
// waits, and goes back. Servers are processes, which end before their pods are gone, as with a kubelet.
func TestAcceptInstall_TakeOver(t *testing.T) {
	t.Parallel()
	programs := velero.Get(t)
	s := ownCluster(t)
	bucket, secret := s.cluster.NewBucket(t, "takeover"), s.credentials()
	s.bucketDir = filepath.Join(s.cluster.S3.Dir, bucket)
	v := &velero.Site{
		Programs: programs, Kubeconfig: s.kubeconfig, Namespace: s.namespace, WorkDir: t.TempDir(), Environment: []string{
			"AWS_SHARED_CREDENTIALS_FILE=" + secret,
		},
	}
	_, err := v.Run(t.Context(), "install", "--provider", "aws", "--bucket", bucket, "--plugins",
		"velero/velero-plugin-for-aws:v1.14.3", "--secret-file", secret,
		"--backup-location-config", "region="+s.cluster.S3.Region+",s3Url="+s.cluster.S3.Endpoint+",s3ForcePathStyle=true",
		"--use-volume-snapshots=false", "--image", "velero/velero:"+velero.Version)
	require.NoError(t, err)
	ready := s.runPods()
	defer ready()

	g := &gate{}
	gated := *v
	gated.Kubeconfig, _ = g.behind(t, s.cluster)
	old := s.awaitReplicas("velero", 1)
	release := s.holdPods(client.MatchingLabels{"deploy": "velero"})
	arguments := old.Spec.Template.Spec.Containers[0].Args[1:]
	server := s.serveVelero(&gated, arguments...)
	s.available()
	s.shop = s.workload(3)
	_, err = v.Run(t.Context(), "backup", "create", "first", "--include-namespaces", s.shop, "--wait")
	require.NoError(t, err)
	_, err = v.Run(t.Context(), "backup", "create", "unwanted", "--include-namespaces", s.shop, "--wait")
	require.NoError(t, err)
	_, err = v.Run(t.Context(), "schedule", "create", "hourly", "--schedule", "0 * * * *", "--include-namespaces", s.shop)
	require.NoError(t, err)
	hit := g.arm(1, before, func(r *http.Request) bool {
		return r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/namespaces/"+s.shop+"/configmaps")
	})
	s.beginBackup("running")
	s.awaitHit(hit)
	s.beginBackup("waiting")
	s.awaitBackup("waiting", velerov1.BackupPhaseQueued)

	check := s.must("takeover", "check", "--timeout", "2m")
	require.Contains(t, check, "- Velero is "+velero.Version+"; cleat does what Velero v1.18.3 does\n")
	require.Contains(t, check, "- plugin image velero/velero-plugin-for-aws:v1.14.3 runs unmodified\n")
	require.Contains(t, check, "- backup running is in progress: Velero stops in the middle of it, and cleat takes it "+
		"up\n")
	require.NotContains(t, check, "custom resource definition", "Velero's are good enough")
	require.Contains(t, check, "A take-over of namespace velero misses nothing.\n")

	end := s.background("takeover", "start", "--timeout", "2m", "--image", "registry.example.io/cleat:v1")
	s.awaitReplicas("velero", 0)
	server.Kill()
	var none appsv1.Deployment
	require.True(t, apierrors.IsNotFound(s.client.Get(t.Context(), s.key("cleat"), &none)), "a pod of Velero is left")
	g.disarm()
	release()
	deployed := s.awaitReplicas("cleat", 1)
	require.Contains(t, end(), "deployment/velero scaled from 1 to 0\ndeployment/cleat applied\nCleat runs in place of "+
		"Velero in namespace velero;")
	container := deployed.Spec.Template.Spec.Containers[0]
	require.Equal(t, "registry.example.io/cleat:v1", container.Image)
	require.Equal(t, old.Spec.Template.Spec.InitContainers, deployed.Spec.Template.Spec.InitContainers)
	require.Equal(t, old.Spec.Template.Spec.Volumes, deployed.Spec.Template.Spec.Volumes)
	require.Equal(t, old.Spec.Template.Spec.Containers[0].Env, container.Env)
	require.Contains(t, s.must("takeover", "start", "--timeout", "1s", "--image", "registry.example.io/cleat:v1"),
		"Cleat runs in place", "it may be run again")

	// Cleat goes on with what it finds.
	release = s.holdPods(client.MatchingLabels{"cleat.dev/takes-over": "velero"})
	s.environment = v.Environment
	cleats := s.serve(append(container.Args[1:], "--plugin-dir", v.PluginDir)...)
	s.awaitBackup("running", velerov1.BackupPhaseCompleted)
	s.awaitBackup("waiting", velerov1.BackupPhaseCompleted)
	s.must("restore", "create", "by-cleat", "--from-backup", "first", "--namespace-mappings", s.shop+":"+s.shop+"-cleat",
		"--wait")
	s.requireConfigMaps(s.shop+"-cleat", 3)
	s.must("backup", "delete", "unwanted", "--confirm", "--wait")
	require.Empty(t, s.files("backups/unwanted"))
	var schedule velerov1.Schedule
	require.NoError(t, s.client.Get(t.Context(), s.key("hourly"), &schedule))
	past := schedule.DeepCopy()
	schedule.Status.LastBackup = &metav1.Time{Time: time.Now().Add(-2 * time.Hour)}
	require.NoError(t, s.client.Patch(t.Context(), &schedule, client.MergeFrom(past)))
	scheduled := ""
	s.eventually("the schedule has made its backup", func(ctx context.Context) (bool, error) {
		var backups velerov1.BackupList
		err := s.client.List(ctx, &backups, client.InNamespace(s.namespace),
			client.MatchingLabels{"velero.io/schedule-name": "hourly"})
		if len(backups.Items) == 1 {
			scheduled = backups.Items[0].Name
		}
		return scheduled != "", err
	})
	s.awaitBackup(scheduled, velerov1.BackupPhaseCompleted)

	// And back.
	end = s.background("takeover", "back")
	s.eventually("the Deployment is being deleted", func(ctx context.Context) (bool, error) {
		var d appsv1.Deployment
		err := s.client.Get(ctx, s.key("cleat"), &d)
		return apierrors.IsNotFound(err) || d.DeletionTimestamp != nil, client.IgnoreNotFound(err)
	})
	require.Zero(t, *s.awaitReplicas("velero", 0).Spec.Replicas, "a pod of cleat is left")
	require.NoError(t, cleats.stop())
	release()
	require.Contains(t, end(), "deployment/cleat deleted\ndeployment/velero scaled from 0 to 1\nVelero runs again in "+
		"namespace velero.\n")
	again := s.awaitReplicas("velero", 1)
	require.Equal(t, old.Spec, again.Spec)
	require.Equal(t, old.Labels, again.Labels)
	require.Equal(t, old.Annotations, again.Annotations)
	_, errs, err := s.run("takeover", "back")
	require.Error(t, err)
	require.Contains(t, errs, "was not taken over")

	back := s.serveVelero(v, arguments...)
	for _, backup := range []string{"waiting", scheduled, "first"} {
		to := s.shop + "-" + backup
		out, err := v.Run(t.Context(), "restore", "create", "of-"+backup, "--from-backup", backup, "--namespace-mappings",
			s.shop+":"+to, "--wait")
		require.NoError(t, err)
		require.Contains(t, out, "Restore completed with status: Completed")
		s.requireConfigMaps(to, 3)
	}
	_, err = v.Run(t.Context(), "backup", "delete", "running", "--confirm")
	require.NoError(t, err)
	s.awaitGone(&velerov1.Backup{}, "running")
	require.Empty(t, s.files("backups/running"), "Velero deletes the files of cleat with the others")
	s.runGuide("migrate", t.TempDir())

	// Velero's client removes an installation whose server is cleat.
	back.Kill()
	s.serve(append(container.Args[1:], "--plugin-dir", v.PluginDir)...)
	out, err := v.Run(t.Context(), "uninstall", "--force")
	require.NoError(t, err)
	require.Contains(t, out, "Velero uninstalled")
	s.awaitGone(&appsv1.Deployment{}, "velero")
}

// requireConfigMaps fails the test unless a namespace has so many of the config maps of a workload.
func (s *site) requireConfigMaps(namespace string, n int) {
	s.t.Helper()
	var list corev1.ConfigMapList
	require.NoError(s.t, s.client.List(s.t.Context(), &list, client.InNamespace(namespace)))
	found := 0
	for i := range list.Items {
		if strings.HasPrefix(list.Items[i].Name, "item-") {
			found++
		}
	}
	require.Equal(s.t, n, found)
}
