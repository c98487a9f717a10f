package install_test

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
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/site"
	"github.com/cleat-dev/cleat/server/test/velero"
)

// heldFinalizer keeps the pod of a server until its process has ended, like a kubelet.
const heldFinalizer = "test.cleat.dev/process"

// holdPods keeps the deleted pods of a Deployment's server. It returns a function that releases them.
func holdPods(s *site.Site, labels client.MatchingLabels) (release func()) {
	s.T.Helper()
	set := func(finalizers string) (n int) {
		var pods corev1.PodList
		require.NoError(s.T, s.Client.List(s.T.Context(), &pods, client.InNamespace(s.Namespace), labels))
		for i := range pods.Items {
			patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":`+finalizers+`}}`))
			require.NoError(s.T, client.IgnoreNotFound(s.Client.Patch(s.T.Context(), &pods.Items[i], patch)))
		}
		return len(pods.Items)
	}
	s.Eventually("there is a pod of the server",
		func(context.Context) (bool, error) { return set(`["`+heldFinalizer+`"]`) > 0, nil })
	return func() { set("null") }
}

// awaitReplicas waits until a Deployment specifies a number of pods and its controller has observed that, and returns
// it.
func awaitReplicas(s *site.Site, name string, n int32) *appsv1.Deployment {
	s.T.Helper()
	var d appsv1.Deployment
	s.Eventually("Deployment "+name+" is scaled", func(ctx context.Context) (bool, error) {
		err := s.Client.Get(ctx, s.Key(name), &d)
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return *d.Spec.Replicas == n && d.Status.ObservedGeneration == d.Generation, err
	})
	return &d
}

// background starts a command that waits for actions of the test. The returned function waits for its end.
func background(s *site.Site, args ...string) (end func() string) {
	s.T.Helper()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(s.T.Context(), site.Program(s.T), append(args, "--kubeconfig", s.Kubeconfig, "--namespace",
		s.Namespace)...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	require.NoError(s.T, cmd.Start())
	return func() string {
		s.T.Helper()
		require.NoError(s.T, cmd.Wait(), "cleat %s\n%s%s", strings.Join(args, " "), &out, &errs)
		return out.String()
	}
}

// TestAcceptInstall_TakeOver takes over an installation of Velero's client, in which a backup runs and another one
// waits, and goes back. Servers are processes, which end before their pods are removed, as with a kubelet.
func TestAcceptInstall_TakeOver(t *testing.T) {
	t.Parallel()
	programs := velero.Get(t)
	s := ownCluster(t)
	bucket, secret := s.Cluster.NewBucket(t, "takeover"), credentials(s)
	s.BucketDir = filepath.Join(s.Cluster.S3.Dir, bucket)
	v := &velero.Site{
		Programs: programs, Kubeconfig: s.Kubeconfig, Namespace: s.Namespace, WorkDir: t.TempDir(), Environment: []string{
			"AWS_SHARED_CREDENTIALS_FILE=" + secret,
		},
	}
	_, err := v.Run(t.Context(), "install", "--provider", "aws", "--bucket", bucket, "--plugins",
		"velero/velero-plugin-for-aws:v1.14.3", "--secret-file", secret,
		"--backup-location-config", "region="+s.Cluster.S3.Region+",s3Url="+s.Cluster.S3.Endpoint+",s3ForcePathStyle=true",
		"--use-volume-snapshots=false", "--image", "velero/velero:"+velero.Version)
	require.NoError(t, err)
	ready := runPods(s)
	defer ready()

	g := &site.Gate{}
	gated := *v
	gated.Kubeconfig, _ = g.Behind(t, s.Cluster)
	old := awaitReplicas(s, "velero", 1)
	release := holdPods(s, client.MatchingLabels{"deploy": "velero"})
	arguments := old.Spec.Template.Spec.Containers[0].Args[1:]
	server := serveVelero(s, &gated, arguments...)
	s.Available()
	s.Shop = s.Workload(3)
	_, err = v.Run(t.Context(), "backup", "create", "first", "--include-namespaces", s.Shop, "--wait")
	require.NoError(t, err)
	_, err = v.Run(t.Context(), "backup", "create", "unwanted", "--include-namespaces", s.Shop, "--wait")
	require.NoError(t, err)
	_, err = v.Run(t.Context(), "schedule", "create", "hourly", "--schedule", "0 * * * *", "--include-namespaces", s.Shop)
	require.NoError(t, err)
	hit := g.Arm(1, site.Before, func(r *http.Request) bool {
		return r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/namespaces/"+s.Shop+"/configmaps")
	})
	s.BeginBackup("running")
	s.AwaitHit(hit)
	s.BeginBackup("waiting")
	s.AwaitBackup("waiting", velerov1.BackupPhaseQueued)

	check := s.Must("takeover", "check", "--timeout", "2m")
	require.Contains(t, check, "- Velero is "+velero.Version+"; cleat does what Velero v1.18.3 does\n")
	require.Contains(t, check, "- plugin image velero/velero-plugin-for-aws:v1.14.3 runs unmodified\n")
	require.Contains(t, check, "- backup running is in progress: Velero stops in the middle of it, and cleat takes it "+
		"up\n")
	require.Equal(t, 4, strings.Count(check, "custom resource definition"), check)
	for _, newer := range []string{"backups", "downloadrequests", "restores", "schedules"} { // fields of newer versions
		require.Contains(t, check, "- custom resource definition "+newer+".velero.io is configured, and stays so: ")
	}
	require.Contains(t, check, "A take-over of namespace velero misses nothing.\n")

	end := background(s, "takeover", "start", "--timeout", "2m", "--image", "registry.example.io/cleat:v1")
	awaitReplicas(s, "velero", 0)
	server.Kill()
	awaitReplicas(s, "cleat", 1)
	holder := func() string {
		var lease coordinationv1.Lease
		require.NoError(t, s.Client.Get(t.Context(), s.Key("cleat-server"), &lease))
		return *lease.Spec.HolderIdentity
	}
	require.Equal(t, "cleat takeover start", holder(), "a pod of Velero is left, so the servers of cleat stand by")
	g.Disarm()
	release()
	deployed := awaitReplicas(s, "cleat", 1)
	s.Eventually("the servers of cleat may work", func(context.Context) (bool, error) { return holder() == "", nil })
	container := deployed.Spec.Template.Spec.Containers[0]
	require.Equal(t, "registry.example.io/cleat:v1", container.Image)
	require.Equal(t, old.Spec.Template.Spec.InitContainers, deployed.Spec.Template.Spec.InitContainers)
	require.Equal(t, old.Spec.Template.Spec.Volumes, deployed.Spec.Template.Spec.Volumes)
	require.Equal(t, old.Spec.Template.Spec.Containers[0].Env, container.Env)

	// Cleat continues the work of Velero. The take-over has its end when it answers.
	release = holdPods(s, client.MatchingLabels{"cleat.dev/takes-over": "velero"})
	s.Environment = v.Environment
	cleats := s.Serve(append(container.Args[1:], "--plugin-dir", v.PluginDir)...)
	require.Contains(t, end(), "deployment/cleat applied\ndeployment/velero scaled from 1 to 0\n"+
		"lease/cleat-server released: "+
		"cleat works\nCleat runs in place of Velero in namespace velero;")
	require.Contains(t, s.Must("takeover", "start", "--timeout", "1s", "--image", "registry.example.io/cleat:v1"),
		"Cleat runs in place", "it may be run again")
	s.AwaitBackup("running", velerov1.BackupPhaseCompleted)
	s.AwaitBackup("waiting", velerov1.BackupPhaseCompleted)
	s.Must("restore", "create", "by-cleat", "--from-backup", "first", "--namespace-mappings", s.Shop+":"+s.Shop+"-cleat",
		"--wait")
	requireConfigMaps(s, s.Shop+"-cleat", 3)
	s.Must("backup", "delete", "unwanted", "--confirm", "--wait")
	require.Empty(t, s.Files("backups/unwanted"))
	var schedule velerov1.Schedule
	require.NoError(t, s.Client.Get(t.Context(), s.Key("hourly"), &schedule))
	past := schedule.DeepCopy()
	schedule.Status.LastBackup = &metav1.Time{Time: time.Now().Add(-2 * time.Hour)}
	require.NoError(t, s.Client.Patch(t.Context(), &schedule, client.MergeFrom(past)))
	scheduled := ""
	s.Eventually("the schedule has made its backup", func(ctx context.Context) (bool, error) {
		var backups velerov1.BackupList
		err := s.Client.List(ctx, &backups, client.InNamespace(s.Namespace),
			client.MatchingLabels{"velero.io/schedule-name": "hourly"})
		if len(backups.Items) == 1 {
			scheduled = backups.Items[0].Name
		}
		return scheduled != "", err
	})
	s.AwaitBackup(scheduled, velerov1.BackupPhaseCompleted)

	// And back.
	end = background(s, "takeover", "back")
	s.Eventually("the Deployment is being deleted", func(ctx context.Context) (bool, error) {
		var d appsv1.Deployment
		err := s.Client.Get(ctx, s.Key("cleat"), &d)
		return apierrors.IsNotFound(err) || d.DeletionTimestamp != nil, client.IgnoreNotFound(err)
	})
	require.Zero(t, *awaitReplicas(s, "velero", 0).Spec.Replicas, "a pod of cleat is left")
	require.NoError(t, cleats.Stop())
	release()
	require.Contains(t, end(), "deployment/cleat deleted\ndeployment/velero scaled from 0 to 1\nVelero runs again in "+
		"namespace velero.\n")
	again := awaitReplicas(s, "velero", 1)
	require.Equal(t, old.Spec, again.Spec)
	require.Equal(t, old.Labels, again.Labels)
	require.Equal(t, old.Annotations, again.Annotations)
	_, errs, err := s.Run("takeover", "back")
	require.Error(t, err)
	require.Contains(t, errs, "was not taken over")

	back := serveVelero(s, v, arguments...)
	for _, backup := range []string{"waiting", scheduled, "first"} {
		to := s.Shop + "-" + backup
		out, err := v.Run(t.Context(), "restore", "create", "of-"+backup, "--from-backup", backup, "--namespace-mappings",
			s.Shop+":"+to, "--wait")
		require.NoError(t, err)
		require.Contains(t, out, "Restore completed with status: Completed")
		requireConfigMaps(s, to, 3)
	}
	_, err = v.Run(t.Context(), "backup", "delete", "running", "--confirm")
	require.NoError(t, err)
	s.AwaitGone(&velerov1.Backup{}, "running")
	require.Empty(t, s.Files("backups/running"), "Velero deletes the files of cleat with the others")
	runGuide(s, "migrate", t.TempDir())

	// Velero's client removes an installation whose server is cleat.
	back.Kill()
	s.Serve(append(container.Args[1:], "--plugin-dir", v.PluginDir)...)
	out, err := v.Run(t.Context(), "uninstall", "--force")
	require.NoError(t, err)
	require.Contains(t, out, "Velero uninstalled")
	s.AwaitGone(&appsv1.Deployment{}, "velero")
}

// requireConfigMaps fails the test unless a namespace has a number of the config maps of a workload.
func requireConfigMaps(s *site.Site, namespace string, n int) {
	s.T.Helper()
	var list corev1.ConfigMapList
	require.NoError(s.T, s.Client.List(s.T.Context(), &list, client.InNamespace(namespace)))
	found := 0
	for i := range list.Items {
		if strings.HasPrefix(list.Items[i].Name, "item-") {
			found++
		}
	}
	require.Equal(s.T, n, found)
}
