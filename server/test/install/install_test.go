package install_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/app"
	"github.com/cleat-dev/cleat/server/internal/setup/install"
	"github.com/cleat-dev/cleat/server/test/controlplane"
	"github.com/cleat-dev/cleat/server/test/loads"
	"github.com/cleat-dev/cleat/server/test/programs"
	"github.com/cleat-dev/cleat/server/test/site"
)

// TestAcceptInstall_LeastPrivilege backs up and restores a namespace as the service account of an installation that is
// not a cluster admin.
func TestAcceptInstall_LeastPrivilege(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/s3")
	shop := s.Workload(3)
	objects := []client.Object{
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "app"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "key"},
			StringData: map[string]string{"key": "k"}},
		&corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "data"},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: new("none"),
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("1Gi")}},
			},
		},
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "app"}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}},
		}},
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "app"},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: shop, Name: "app"}},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "app"},
		},
	}
	for _, object := range objects {
		require.NoError(t, s.Client.Create(t.Context(), object.DeepCopyObject().(client.Object))) //nolint:forcetypeassert // it is one
	}
	out := s.Must("install", "--no-default-backup-location", "--no-secret", "--rbac", "least", "--rbac-namespaces", shop,
		"--use-node-agent")
	require.Contains(t, out, "namespace/"+s.Namespace+" exists and was left as it is; --apply updates it\n")
	require.Contains(t, out, "rolebinding/velero-"+s.Namespace+" in namespace "+shop+" created\n")

	s.ServerKubeconfig = s.KubeconfigOf("velero")
	server := s.Serve()
	s.Available()
	s.Must("backup", "create", "b", "--include-namespaces", shop, "--wait")
	b := s.AwaitBackup("b", velerov1.BackupPhaseCompleted)
	require.Zero(t, b.Status.Warnings+b.Status.Errors, s.ResultsOf("b"))

	for _, object := range objects {
		require.NoError(t, s.Client.Delete(t.Context(), object))
		s.Eventually(object.GetName()+" is gone", func(ctx context.Context) (bool, error) {
			err := s.Client.Get(ctx, client.ObjectKeyFromObject(object), object)
			return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
		})
	}
	s.Must("restore", "create", "r", "--from-backup", "b", "--wait")
	r := s.AwaitRestore("r", velerov1.RestorePhaseCompleted)
	require.Zero(t, r.Status.Errors)
	for _, object := range objects {
		require.NoError(t, s.Client.Get(t.Context(), client.ObjectKeyFromObject(object), object))
	}
	site.RequireRights(t, server.Log)

	_, _, err := s.Run("backup", "create", "other", "--include-namespaces", s.Workload(1), "--wait")
	require.Error(t, err)
	require.NotZero(t, s.AwaitBackup("other", velerov1.BackupPhasePartiallyFailed).Status.Errors,
		"the server has no rights there")

	server.Kill() // it would carry out the Backup of the load that is made by hand
	moveVolume(s, shop)
}

// moveVolume backs up a volume of a pod with a node agent, which has the service account of node agents.
func moveVolume(s *site.Site, shop string) {
	s.T.Helper()
	dir := s.T.TempDir()
	require.NoError(s.T, os.MkdirAll(filepath.Join(dir, "store", "bucket"), 0o700))
	programs.Copy(s.T, "server/test/nodeagent/testdata/mover", filepath.Join(dir, "plugins", "mover"))
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: shop + "-node"}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "app"}, Spec: corev1.PodSpec{
		NodeName: node.Name, Containers: []corev1.Container{{Name: "app", Image: "app"}}, AutomountServiceAccountToken: new(
			false,
		),
		Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
	}}
	s.Eventually("the pod exists", func(ctx context.Context) (bool, error) { // its service account may not exist yet
		return true, client.IgnoreAlreadyExists(s.Client.Create(ctx, pod))
	})
	require.NoError(s.T, s.Client.Create(s.T.Context(), node))
	s.T.Cleanup(func() { _ = s.Client.Delete(context.Background(), node) })
	pod.Status.Phase = corev1.PodRunning
	require.NoError(s.T, s.Client.Status().Update(s.T.Context(), pod))
	volume := filepath.Join(dir, "pods", string(pod.UID), "volumes", "kubernetes.io~empty-dir", "data")
	require.NoError(s.T, os.MkdirAll(volume, 0o755))
	require.NoError(s.T, os.WriteFile(filepath.Join(volume, "file"), []byte("content"), 0o600))

	var log site.LogBuffer
	agent := exec.Command(site.Program(s.T), "node-agent", "server", "--kubeconfig", s.KubeconfigOf("node-agent"),
		"--namespace", s.Namespace, "--node-name", node.Name,
		"--host-pods", filepath.Join(dir, "pods"), "--plugin-dir", filepath.Join(dir, "plugins"), "--metrics-address", "0",
		"--profiler-address", "",
		"--scratch-dir", s.T.TempDir(), "--volume-namespaces", shop)
	agent.Stdout, agent.Stderr = &log, &log
	require.NoError(s.T, agent.Start())
	defer func() {
		_ = agent.Process.Kill()
		_ = agent.Wait()
		if s.T.Failed() {
			s.T.Logf("log of the node agent:\n%s", log.Tail())
		}
	}()
	load := &velerov1.PodVolumeBackup{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "data"},
		Spec: velerov1.PodVolumeBackupSpec{
			Node: node.Name, Pod: velerov1.ObjectReference{Kind: "Pod", Namespace: shop, Name: pod.Name, UID: pod.UID},
			Volume:                "data",
			BackupStorageLocation: "files", UploaderType: velerov1.RepositoryTypeRestic,
		}}
	owner := &velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "by-hand"}}
	require.NoError(s.T, loads.Begin(s.T.Context(), s.Client, owner))
	require.NoError(s.T, loads.Sign(s.T.Context(), s.Client, owner, load))
	for _, object := range []client.Object{load, &velerov1.BackupStorageLocation{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "files"},
		Spec: velerov1.BackupStorageLocationSpec{
			Provider: "cleat.dev/file", Config: map[string]string{"path": filepath.Join(dir, "store")},
			StorageType: velerov1.StorageType{ObjectStorage: &velerov1.ObjectStorageLocation{Bucket: "bucket"}},
		},
	}} {
		require.NoError(s.T, s.Client.Create(s.T.Context(), object))
	}
	s.Eventually("the volume is backed up", func(ctx context.Context) (bool, error) {
		err := s.Client.Get(ctx, s.Key("data"), load)
		return load.Status.Phase.Terminal(), err
	})
	require.Equal(s.T, velerov1.LoadPhaseCompleted, load.Status.Phase, load.Status.Message)
	site.RequireRights(s.T, &log)
}

// ownCluster returns a site for an installation into the namespace velero of a cluster of its own, without definitions.
func ownCluster(t *testing.T) *site.Site {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: needs a control plane")
	}
	cluster, err := controlplane.Start(t.Context(), controlplane.Options{Log: io.Discard})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Stop()) })
	config, err := clientcmd.BuildConfigFromFlags("", cluster.Kubeconfig)
	require.NoError(t, err)
	scheme, err := app.Scheme()
	require.NoError(t, err)
	require.NoError(t, apiextensionsv1.AddToScheme(scheme))
	c, err := client.New(config, client.Options{Scheme: scheme})
	require.NoError(t, err)
	return &site.Site{T: t, Cluster: cluster, Client: c, Namespace: "velero", Kubeconfig: cluster.Kubeconfig}
}

// credentials writes the credentials of the cluster's S3 server to a file in the format that providers read.
func credentials(s *site.Site) (path string) {
	s.T.Helper()
	path = filepath.Join(s.T.TempDir(), "credentials")
	text := fmt.Appendf(nil, "[default]\naws_access_key_id=%s\naws_secret_access_key=%s\n", s.Cluster.S3.AccessKey,
		s.Cluster.S3.SecretKey)
	require.NoError(s.T, os.WriteFile(path, text, 0o600))
	return path
}

// TestAcceptInstall_EverythingAndUninstall installs everything into a cluster of its own, a second time, and beside
// another one, and removes it again. Then it runs the commands of the README.
func TestAcceptInstall_EverythingAndUninstall(t *testing.T) {
	t.Parallel()
	s := ownCluster(t)
	cluster, c := s.Cluster, s.Client
	bucket := cluster.NewBucket(t, "install")
	s.BucketDir = filepath.Join(cluster.S3.Dir, bucket)

	secret := credentials(s)
	args := []string{
		"install", "--provider", "cleat.dev/s3", "--bucket", bucket, "--prefix", "here", "--secret-file", secret,
		"--backup-location-config", "region=" + cluster.S3.Region + ",s3Url=" + cluster.S3.Endpoint +
			",s3ForcePathStyle=true",
		"--plugins", "registry.example.io/team/velero-plugin_x:v1,velero/velero-plugin-for-aws:v1.13.0", "--image",
		"registry.example.io/cleat:v1",
		"--node-selector", "disk=ssd", "--tolerations", "dedicated=backup:NoSchedule,spot", "--server-priority-class-name",
		"system-cluster-critical",
		"--pod-labels", "team=ops", "--pod-annotations", "a=b", "--sa-annotations", "iam=x", "--velero-pod-cpu-limit", "0",
		"--concurrent-backups", "2", "--features", "EnableAPIGroupVersions", "--use-volume-snapshots",
		"--snapshot-location-config", "region=x",
		"--use-node-agent", "--node-agent-pod-mem-limit", "1Gi", "--node-agent-priority-class-name", "system-node-critical",
		"--node-agent-configmap", "agents", "--kubelet-root-dir", "/data/kubelet", "--default-volumes-to-fs-backup",
	}
	var printed struct{ Items []unstructured.Unstructured }
	require.NoError(t, json.Unmarshal([]byte(s.Must(append(args, "--dry-run", "-o", "json")...)), &printed))
	require.Error(t, c.Get(t.Context(), client.ObjectKey{Name: "velero"}, &corev1.Namespace{}), "a dry run sends nothing")

	ready := runPods(s)
	require.Contains(t, s.Must(append(args, "--wait")...), "deployment/velero created\n")
	ready()
	for i := range printed.Items {
		want, got := &printed.Items[i], &unstructured.Unstructured{}
		got.SetGroupVersionKind(want.GroupVersionKind())
		require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(want), got))
		require.Equal(t, "velero", got.GetLabels()["component"], "%s %s", got.GetKind(), got.GetName())
	}
	require.Contains(t, s.Must(args...), "secret/cloud-credentials exists and was left as it is")
	require.Contains(t, s.Must(append(args, "--apply", "--concurrent-backups", "3")...), "deployment/velero applied\n")

	var deployments appsv1.DeploymentList // as expected by "velero plugin get" and dashboards
	require.NoError(t, c.List(t.Context(), &deployments, client.InNamespace("velero"),
		client.MatchingLabels{"component": "velero"}))
	require.Len(t, deployments.Items, 1)
	pod := deployments.Items[0].Spec.Template
	require.Equal(t, "velero", pod.Spec.Containers[0].Name)
	require.Equal(t, map[string]string{"component": "velero", "deploy": "velero", "team": "ops"}, pod.Labels)
	require.Equal(t, []string{"server", "--concurrent-backups=3", "--default-volumes-to-fs-backup=true",
		"--features=EnableAPIGroupVersions"}, pod.Spec.Containers[0].Args)
	require.Equal(t, "team-velero-plugin-x", pod.Spec.InitContainers[0].Name)
	require.Equal(t, "velero-velero-plugin-for-aws", pod.Spec.InitContainers[1].Name)
	require.Equal(t, "registry-example-io-cleat-kopia", pod.Spec.InitContainers[2].Name,
		"it removes what the agents have stored, and is beside the image of the server")
	withRestic := s.Must("install", "--no-default-backup-location", "--no-secret", "--use-node-agent",
		"--uploader-type=restic", "--dry-run")
	for _, mover := range []string{"kopia", "restic"} {
		require.Equal(t, 2, strings.Count(withRestic, "image: ghcr.io/cleat-dev/cleat-"+mover+":"), mover)
	}
	require.Equal(t, []corev1.Toleration{
		{Key: "dedicated", Operator: "Equal", Value: "backup", Effect: "NoSchedule"}, {Key: "spot", Operator: "Exists"},
	}, pod.Spec.Tolerations)
	require.Equal(t, "velero", pod.Spec.ServiceAccountName)
	require.True(t, pod.Spec.Containers[0].Resources.Limits.Cpu().IsZero())

	checkAgents(s)

	// The command of the pod works with the installed rights and credentials.
	s.ServerKubeconfig, s.Environment = s.KubeconfigOf("velero"), []string{"AWS_SHARED_CREDENTIALS_FILE=" + secret}
	server := s.Serve(pod.Spec.Containers[0].Args[1:]...)
	s.Available()
	shop := s.Workload(1)
	s.Must("backup", "create", "b", "--include-namespaces", shop, "--wait")
	s.Must("restore", "create", "r", "--from-backup", "b", "--wait")
	require.NoError(t, server.Stop())

	// A restore that no server finishes has a finalizer; another installation needs the definitions.
	r := &velerov1.Restore{}
	require.NoError(t, c.Get(t.Context(), s.Key("r"), r))
	r.Finalizers = append(r.Finalizers, "restores.velero.io/external-resources-finalizer")
	require.NoError(t, c.Update(t.Context(), r))
	other := &site.Site{T: t, Cluster: cluster, Client: c, Namespace: "other", Kubeconfig: cluster.Kubeconfig}
	// The other one is in a namespace that is not its own, with a console.
	require.NoError(t, c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}}))
	other.Must("install", "--no-default-backup-location", "--no-secret", "--rbac", "least", "--rbac-namespaces", shop,
		"--use-node-agent", "--use-console", "--console-hosts", "console.example.com", "--console-tls-secret", "web")
	checkConsole(other)

	_, note, err := s.Run("uninstall")
	require.Error(t, err)
	require.Contains(t, note, "stdin is not a terminal")
	out := s.Must("uninstall", "--force", "--grace-period", "1s")
	require.Contains(t, out, "restore/r lost its finalizers")
	require.Contains(t, out, "namespace/velero deleted\n")
	require.Contains(t, out, "were left, because the server in namespace other needs them")
	require.NotEmpty(t, s.Files("here/backups/b"), "buckets keep their files")
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Name: "velero-other"}, &rbacv1.ClusterRole{}))

	out = other.Must("uninstall", "--force")
	for _, line := range []string{"deployment/cleat-console deleted\n", "service/cleat-console deleted\n", left} {
		require.Contains(t, out, line)
	}
	for _, object := range []client.Object{&appsv1.Deployment{}, &corev1.Service{}} {
		require.True(t, apierrors.IsNotFound(c.Get(t.Context(), other.Key("cleat-console"), object)), "%T", object)
	}
	require.NoError(t, c.Get(t.Context(), other.Key("beside"), &corev1.Service{}), "it is of somebody else")
	for _, list := range []client.ObjectList{&rbacv1.ClusterRoleList{}, &rbacv1.ClusterRoleBindingList{},
		&rbacv1.RoleList{}, &rbacv1.RoleBindingList{}, &appsv1.DeploymentList{}, &appsv1.DaemonSetList{},
		&corev1.NamespaceList{}} {
		require.NoError(t, c.List(t.Context(), list, client.MatchingLabels{"component": "velero"}))
		require.Zero(t, meta.LenList(list), "%T", list)
	}
	var definitions apiextensionsv1.CustomResourceDefinitionList
	require.NoError(t, c.List(t.Context(), &definitions))
	require.Empty(t, definitions.Items)
	require.Equal(t, left, other.Must("uninstall", "--force"), "nothing is left to do")

	// A client that has discovered one version of the group finds the others as soon as they are served.
	config, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig)
	require.NoError(t, err)
	fresh, err := client.New(config, client.Options{})
	require.NoError(t, err)
	objects, err := install.DefinitionObjects()
	require.NoError(t, err)
	backups := objects[slices.IndexFunc(objects,
		func(o *unstructured.Unstructured) bool { return o.GetName() == "backups.velero.io" })]
	require.NoError(t, fresh.Create(t.Context(), backups.DeepCopy()))
	s.Eventually("the group is known", func(context.Context) (bool, error) {
		_, err := fresh.RESTMapper().RESTMapping(velerov1.SchemeGroupVersion.WithKind("Backup").GroupKind())
		return err == nil, err
	})
	require.NoError(t, install.Definitions(t.Context(), fresh, func(string, string) {}))

	for _, name := range []string{"shop", "blog"} {
		require.NoError(t, c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	ready = runPods(s)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "credentials"), []byte("[default]\n"), 0o600))
	runGuide(s, "install", dir)
	ready()
}

// left is what "uninstall" prints about a namespace that "install" has not made.
const left = "namespace/other was left, because no installation has made it\n"

// checkConsole checks the console of an installation, and creates a Service beside it that is of somebody else.
func checkConsole(s *site.Site) {
	s.T.Helper()
	var console appsv1.Deployment
	require.NoError(s.T, s.Client.Get(s.T.Context(), s.Key("cleat-console"), &console))
	pod := console.Spec.Template
	require.False(s.T, *pod.Spec.AutomountServiceAccountToken, "it has no rights")
	require.Equal(s.T, []string{"console", "--in-cluster", "--host=console.example.com", "--tls-cert-file=/tls/tls.crt",
		"--tls-private-key-file=/tls/tls.key"}, pod.Spec.Containers[0].Args)
	var service corev1.Service
	require.NoError(s.T, s.Client.Get(s.T.Context(), s.Key("cleat-console"), &service))
	require.Equal(s.T, pod.Labels["deploy"], service.Spec.Selector["deploy"])
	require.NotEqual(s.T, "velero", console.Labels["component"], "clients would take it for the server")
	require.NoError(s.T, s.Client.Create(s.T.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "beside"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 1}}}}))
}

// checkAgents checks the DaemonSet of the node agents, which has Velero's names and labels.
func checkAgents(s *site.Site) {
	s.T.Helper()
	var agents appsv1.DaemonSet
	require.NoError(s.T, s.Client.Get(s.T.Context(), client.ObjectKey{Namespace: "velero", Name: "node-agent"}, &agents))
	require.Equal(s.T, map[string]string{"name": "node-agent"}, agents.Spec.Selector.MatchLabels)
	pod := agents.Spec.Template
	require.Equal(s.T, map[string]string{"component": "velero", "name": "node-agent", "role": "node-agent", "team": "ops",
		"cleat.dev/node-agent": "true"},
		pod.Labels)
	require.Equal(s.T, []string{"velero", "system-node-critical", "registry-example-io-cleat-kopia"}, []string{
		pod.Spec.ServiceAccountName, pod.Spec.PriorityClassName, pod.Spec.InitContainers[0].Name,
	})
	c := pod.Spec.Containers[0]
	require.Equal(s.T, []string{"/velero", "node-agent", "server", "--features=EnableAPIGroupVersions",
		"--node-agent-configmap=agents"}, append(c.Command, c.Args...))
	require.Equal(s.T, "1Gi", c.Resources.Limits.Memory().String())
	volumes, mounts := map[string]string{}, map[string]string{}
	for _, volume := range pod.Spec.Volumes {
		if volume.HostPath != nil {
			volumes[volume.Name] = volume.HostPath.Path
		}
	}
	for _, mount := range c.VolumeMounts {
		if mount.MountPropagation != nil && *mount.MountPropagation == corev1.MountPropagationHostToContainer {
			mounts[mount.Name] = mount.MountPath
		}
	}
	require.Equal(s.T, map[string]string{"host-pods": "/data/kubelet/pods", "host-plugins": "/data/kubelet/plugins"},
		volumes)
	require.Equal(s.T, map[string]string{"host-pods": "/host_pods", "host-plugins": "/var/lib/kubelet/plugins"}, mounts)
	require.True(s.T, slices.ContainsFunc(c.Env, func(v corev1.EnvVar) bool { return v.Name == "NODE_NAME" }))
}

// runPods reports the pods of the installation as ready, as a kubelet would, until the returned function is called.
func runPods(s *site.Site) (stop func()) {
	s.T.Helper()
	ctx, cancel := context.WithCancel(s.T.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			var pods corev1.PodList
			_ = s.Client.List(ctx, &pods, client.InNamespace(s.Namespace)) // will be tried again
			for i := range pods.Items {
				pods.Items[i].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
				_ = s.Client.Status().Update(ctx, &pods.Items[i])
			}
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	return func() { cancel(); <-done }
}
