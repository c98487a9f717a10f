package rehearsals_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/rehearsal"
	"github.com/cleat-dev/cleat/server/internal/control/rehearsals"
	"github.com/cleat-dev/cleat/server/internal/spec/enclosure"
	"github.com/cleat-dev/cleat/server/test/site"
)

// eachObject calls see for all objects of a cluster, but those that others write all the time.
func eachObject(s *site.Site, see func(gv, resource string, object *metav1.PartialObjectMetadata, raw []byte)) {
	s.T.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", s.Cluster.Kubeconfig)
	require.NoError(s.T, err)
	config.QPS = -1
	api, err := discovery.NewDiscoveryClientForConfig(config)
	require.NoError(s.T, err)
	lists, err := api.ServerPreferredResources()
	require.NoError(s.T, err)
	for _, list := range lists {
		for _, resource := range list.APIResources {
			if !slices.Contains(resource.Verbs, "list") || slices.Contains([]string{"Event", "Lease", "ComponentStatus",
				"DownloadRequest", "ServerStatusRequest"}, resource.Kind) {
				continue
			}
			found := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": list.GroupVersion,
				"kind": resource.Kind}}
			err := s.Client.List(s.T.Context(), found)
			if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) { // a definition that another test has deleted
				continue
			}
			require.NoError(s.T, err, "%s %s", list.GroupVersion, resource.Kind)
			for i := range found.Items {
				raw, err := found.Items[i].MarshalJSON()
				require.NoError(s.T, err)
				object := new(metav1.PartialObjectMetadata)
				require.NoError(s.T, json.Unmarshal(raw, object))
				see(list.GroupVersion, resource.Name, object, raw)
			}
		}
	}
}

// everything returns the names of all objects of a cluster.
func everything(s *site.Site) (all []string) {
	s.T.Helper()
	eachObject(s, func(gv, resource string, object *metav1.PartialObjectMetadata, _ []byte) {
		all = append(all, strings.Join([]string{gv, resource, object.Namespace, object.Name}, " "))
	})
	slices.Sort(all)
	return all
}

// begin requests a rehearsal.
func begin(s *site.Site, name, backup string) {
	s.T.Helper()
	require.NoError(s.T, s.Client.Create(s.T.Context(), rehearsals.New(s.Namespace, name, backup, 10*time.Minute)))
}

// phase returns the phase of a rehearsal, and its Restore.
func phase(ctx context.Context, s *site.Site, name string) (string, *velerov1.Restore, error) {
	var r velerov1.Restore
	err := s.Client.Get(ctx, s.Key(name), &r)
	return r.Annotations[velerov1.RehearsalAnnotation], &r, err
}

// awaitPhase waits until a rehearsal is in a phase.
func awaitPhase(s *site.Site, name, want string) (r *velerov1.Restore) {
	s.T.Helper()
	s.Eventually("rehearsal "+name+" is "+want, func(ctx context.Context) (bool, error) {
		is, found, err := phase(ctx, s, name)
		r = found
		return is == want, err
	})
	return r
}

// resultOf returns the result of a rehearsal that has ended.
func resultOf(s *site.Site, name string) rehearsal.Summary {
	s.T.Helper()
	list := rehearsal.ParseList(awaitPhase(s, name, velerov1.RehearsalDone).Annotations[velerov1.RehearsalsAnnotation])
	require.Len(s.T, list, 1)
	return list[0]
}

// reports returns the names of the reports beside a backup.
func reports(s *site.Site, backup string) []string {
	return slices.DeleteFunc(s.Files("backups/"+backup), func(name string) bool {
		return !strings.Contains(name, "rehearsal-")
	})
}

// shop makes a namespace with some objects, and a backup of it.
func shop(s *site.Site, backup string) (namespace string) {
	s.T.Helper()
	namespace = s.Put(`{apiVersion: v1, kind: Namespace, metadata: {generateName: shop-}}`).GetName()
	objects(s, namespace, `{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: NS}, data: {a: "1"}}`,
		`{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: NS}}`,
		`{apiVersion: v1, kind: Service, metadata: {name: front, namespace: NS}, spec: {type: NodePort, ports: [{port: 80}]}}`)
	s.Must("backup", "create", backup, "--include-namespaces", namespace, "--wait")
	return namespace
}

// write is a write of a rehearsal.
type write struct {
	what  string
	match func(r *http.Request) bool
}

// killedAt returns writes of each phase of a rehearsal, in their order.
func killedAt() []write {
	request := func(what, method, path string) write {
		return write{what, func(r *http.Request) bool {
			return r.Method == method && strings.Contains(r.URL.Path, path)
		}}
	}
	next := func(phase string) write {
		return write{"the phase " + phase, func(r *http.Request) bool {
			if r.Method != http.MethodPatch || !strings.Contains(r.URL.Path, "/restores/") {
				return false
			}
			body, err := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			return err == nil && bytes.Contains(body, fmt.Appendf(nil, "%q:%q", velerov1.RehearsalAnnotation, phase))
		}}
	}
	return []write{
		next(velerov1.RehearsalPreparing),
		request("its namespace", http.MethodPost, "/api/v1/namespaces"),
		request("the proof of its namespace", http.MethodPatch, "/api/v1/namespaces/rehearsal-"),
		request("the policy that shuts it in", http.MethodPost, "/networkpolicies"),
		request("its quota", http.MethodPost, "/resourcequotas"),
		next(velerov1.RehearsalRestoring),
		request("an object", http.MethodPost, "/secrets"),
		request("another object", http.MethodPost, "/services"),
		request("the results of the restore", http.MethodPut, "/restores/r/restore-r-results.gz"),
		next(velerov1.RehearsalWaiting),
		next(velerov1.RehearsalChecking),
		request("the report", http.MethodPut, "-rehearsal-"),
		request("the result in the backup", http.MethodPatch, "/backups/b"),
		next(velerov1.RehearsalCleaning),
		request("the end of its namespace", http.MethodDelete, "/api/v1/namespaces/rehearsal-"),
		next(velerov1.RehearsalDone),
	}
}

// TestAcceptTrust_RehearsalKilled kills the server before and after a write of each phase of one rehearsal. The last
// server ends it, and everything is as before.
func TestAcceptTrust_RehearsalKilled(t *testing.T) {
	t.Parallel()
	g := new(site.Gate)
	cluster := alone.Installed(t)
	s := site.NewIn(t, cluster, "cleat.dev/s3")
	var url string
	s.ServerKubeconfig, url = g.Behind(t, cluster)
	s.ChangeLocation(func(l *velerov1.BackupStorageLocation) { l.Spec.Config["s3Url"] = url })
	attempts := []string{"--restore-attempts", "100"}
	server := s.Serve(attempts...)
	s.Available()
	shop(s, "b")
	server.Kill()
	before := everything(s)
	begin(s, "r", "b")

	for _, at := range killedAt() {
		for _, when := range []site.Moment{site.Before, site.After} {
			hit := g.Arm(1, when, at.match)
			server = s.Serve(attempts...)
			s.AwaitHit(hit)
			server.Kill()
			g.Disarm()
			is, _, err := phase(t.Context(), s, "r")
			require.NoError(t, err)
			t.Logf("killed %s %s, while it is %s", when, at.what, is)
		}
	}
	s.Serve(attempts...)
	result := resultOf(s, "r")
	require.Equal(t, rehearsal.Passed, result.Result, result.Text)
	require.True(t, result.Stored)
	require.Len(t, reports(s, "b"), 1)
	requireNothingLeft(s)
	var b velerov1.Backup
	require.NoError(t, s.Client.Get(t.Context(), s.Key("b"), &b))
	require.Len(t, rehearsal.ParseList(b.Annotations[velerov1.RehearsalsAnnotation]), 1)

	drop(s, "r")
	require.Equal(t, before, everything(s), "everything is as before")
}

// drop deletes the Restore of a rehearsal, and waits until it is gone.
func drop(s *site.Site, name string) {
	s.T.Helper()
	r := &velerov1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name}}
	require.NoError(s.T, client.IgnoreNotFound(s.Client.Delete(s.T.Context(), r)))
	s.AwaitGone(&velerov1.Restore{}, name)
}

// TestAcceptTrust_RehearsalNames shows that a rehearsal takes other names if one is taken, and does not begin if all
// that it tries are. What has the names stays.
func TestAcceptTrust_RehearsalNames(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/s3")
	server := s.Serve()
	s.Available()
	shop(s, "b")
	server.Kill()
	take := func(rehearsal string, names int) (taken []string) {
		begin(s, rehearsal, "b")
		_, r, err := phase(t.Context(), s, rehearsal)
		require.NoError(t, err)
		for n := range names {
			sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d", r.UID, n+1))
			name := fmt.Sprintf("rehearsal-%s-1", hex.EncodeToString(sum[:5]))
			s.Put(fmt.Sprintf(`{apiVersion: v1, kind: Namespace, metadata: {name: %s}}`, name))
			taken = append(taken, name)
		}
		return taken
	}
	taken := slices.Concat(take("one", 1), take("all", 5))
	s.Serve()
	require.Equal(t, rehearsal.Passed, resultOf(s, "one").Result)
	result := resultOf(s, "all")
	require.Equal(t, rehearsal.NotRun, result.Result)
	require.Contains(t, result.Text, taken[5]+" exists and is not one of this rehearsal")
	for _, name := range taken {
		var namespace corev1.Namespace
		require.NoError(t, s.Client.Get(t.Context(), client.ObjectKey{Name: name}, &namespace))
		require.Nil(t, namespace.DeletionTimestamp)
		require.NoError(t, s.Client.Delete(t.Context(), &namespace))
	}
	requireNothingLeft(s)
}

// pending adds a pod that never starts, because the control plane has no node.
func pending(s *site.Site, namespace string) {
	objects(s, namespace, `{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: NS}, spec: {
		securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}, containers: [{name: c, image: i,
		securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}]}}`)
}

// TestAcceptTrust_RehearsalsAtOnce begins several rehearsals at once: as many as the config allows are at work side by
// side, and the others wait for their turn. One is cancelled and one is deleted while it waits for its pods.
func TestAcceptTrust_RehearsalsAtOnce(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/s3")
	s.Serve("--config", site.ConfigFile(t, "restores: {rehearsals: {concurrent: 2}}"))
	s.Available()
	ns := s.Put(`{apiVersion: v1, kind: Namespace, metadata: {generateName: shop-}}`).GetName()
	pending(s, ns)
	s.Must("backup", "create", "b", "--include-namespaces", ns, "--wait")
	shop(s, "c")
	begin(s, "r1", "b")
	begin(s, "r2", "b")
	one, two := awaitPhase(s, "r1", velerov1.RehearsalWaiting), awaitPhase(s, "r2", velerov1.RehearsalWaiting)
	require.NotEqual(t, one.Spec.NamespaceMapping[ns], two.Spec.NamespaceMapping[ns])
	for _, r := range []*velerov1.Restore{one, two} {
		var pod corev1.Pod
		s.Eventually("the pod is there", func(ctx context.Context) (bool, error) {
			err := s.Client.Get(ctx, client.ObjectKey{Namespace: r.Spec.NamespaceMapping[ns], Name: "p"}, &pod)
			return err == nil, client.IgnoreNotFound(err)
		})
	}
	begin(s, "r3", "c")
	s.AwaitWait("restore", "r3", "its turn")
	require.Contains(t, s.Must("backup", "rehearsals"), "WaitingUntilReady")

	require.Contains(t, s.Must("restore", "get"), "RehearsalWaiting")
	require.Contains(t, s.Must("restore", "cancel", "r1", "--wait"), "it ends early, and what it has made is deleted")
	require.Equal(t, rehearsal.Cancelled, resultOf(s, "r1").Result)
	require.Equal(t, rehearsal.Passed, resultOf(s, "r3").Result, "it had its turn")
	drop(s, "r2")
	requireNothingLeft(s)
	require.Len(t, reports(s, "b"), 1, "the cancelled one has a report")
}

// TestAcceptTrust_RehearsalSwept removes the Restore of a rehearsal with its finalizers while no server runs. The next
// server deletes what it has made.
func TestAcceptTrust_RehearsalSwept(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/s3")
	server := s.Serve()
	s.Available()
	ns := s.Put(`{apiVersion: v1, kind: Namespace, metadata: {generateName: shop-}}`).GetName()
	pending(s, ns)
	s.Must("backup", "create", "b", "--include-namespaces", ns, "--wait")
	begin(s, "r", "b")
	made := awaitPhase(s, "r", velerov1.RehearsalWaiting).Spec.NamespaceMapping[ns]
	server.Kill()
	r := &velerov1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "r"}}
	require.NoError(t, s.Client.Delete(t.Context(), r))
	require.NoError(t, s.Client.Patch(t.Context(), r, client.RawPatch(types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":null}}`))))
	var namespace corev1.Namespace
	require.NoError(t, s.Client.Get(t.Context(), client.ObjectKey{Name: made}, &namespace))
	s.Serve()
	s.Eventually("the namespace is deleted", func(ctx context.Context) (bool, error) {
		err := s.Client.Get(ctx, client.ObjectKey{Name: made}, &namespace)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
	requireNothingLeft(s)
}

// TestAcceptTrust_RehearsalScheduled rehearses the newest backup of a schedule when its annotation is due.
func TestAcceptTrust_RehearsalScheduled(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/s3")
	s.Serve()
	s.Available()
	ns := s.Put(`{apiVersion: v1, kind: Namespace, metadata: {generateName: shop-}}`).GetName()
	objects(s, ns, `{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: NS}, data: {a: "1"}}`)
	s.Must("schedule", "create", "daily", "--schedule", "0 0 1 1 *", "--include-namespaces", ns)
	s.Must("backup", "create", "b", "--from-schedule", "daily", "--wait")
	var schedule velerov1.Schedule
	require.NoError(t, s.Client.Get(t.Context(), s.Key("daily"), &schedule))
	before := time.Now().Add(-2 * time.Minute).UTC().Format(time.RFC3339)
	require.NoError(t, s.Client.Patch(t.Context(), &schedule, client.RawPatch(types.MergePatchType, fmt.Appendf(nil,
		`{"metadata":{"annotations":{%q:"* * * * *",%q:%q}}}`, velerov1.RehearseAnnotation, velerov1.RehearsedAnnotation,
		before))))
	s.Eventually("the backup is rehearsed", func(ctx context.Context) (bool, error) {
		var b velerov1.Backup
		err := s.Client.Get(ctx, s.Key("b"), &b)
		list := rehearsal.ParseList(b.Annotations[velerov1.RehearsalsAnnotation])
		return len(list) > 0 && list[0].Result == rehearsal.Passed, err
	})
}

// TestAcceptTrust_RehearsalVolumes shows that volumes that were made for a rehearsal are deleted with it, whatever
// their reclaim policy is, and that no volume that was there before is bound to a claim of it.
func TestAcceptTrust_RehearsalVolumes(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/s3")
	s.Serve()
	s.Available()
	ns := s.Put(`{apiVersion: v1, kind: Namespace, metadata: {generateName: shop-}}`).GetName()
	class := s.Put(fmt.Sprintf(`{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: %s},
		provisioner: kubernetes.io/no-provisioner, volumeBindingMode: Immediate}`, ns))
	t.Cleanup(func() { _ = s.Client.Delete(context.Background(), class) })
	volume := func(name, mode, policy, class, more string) {
		s.Put(fmt.Sprintf(`{apiVersion: v1, kind: PersistentVolume, metadata: {name: %s-%s}, spec: {capacity: {storage: 1Gi},
			accessModes: [%s], storageClassName: %s, persistentVolumeReclaimPolicy: %s, hostPath: {path: /tmp/cleat-%s-%s}%s}}`,
			ns, name, mode, class, policy, ns, name, more))
		t.Cleanup(func() { s.DropVolume(ns + "-" + name) })
	}
	for claim, mode := range map[string]string{"one": "ReadWriteOnce", "two": "ReadWriteMany"} {
		volume("of-"+claim, mode, "Retain", ns, fmt.Sprintf(", claimRef: {namespace: %s, name: %s}", ns, claim))
		objects(s, ns, `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: `+claim+`, namespace: NS}, spec: {
			accessModes: [`+mode+`], storageClassName: NS, resources: {requests: {storage: 1Gi}}}}`)
	}
	bound := func(namespace, claim string) (is bool) {
		var found corev1.PersistentVolumeClaim
		err := s.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: claim}, &found)
		return err == nil && found.Status.Phase == corev1.ClaimBound
	}
	s.Eventually("the claims are bound", func(context.Context) (bool, error) {
		return bound(ns, "one") && bound(ns, "two"), nil
	})
	pending(s, ns)
	s.Must("backup", "create", "b", "--include-namespaces", ns, "--wait")
	volume("spare", "ReadWriteMany", "Retain", ns, "")
	begin(s, "r", "b")
	r := awaitPhase(s, "r", velerov1.RehearsalWaiting)
	made := r.Spec.NamespaceMapping[ns]
	require.False(t, bound(made, "one"), "the disk of the workload is not used")
	volume("new", "ReadWriteOnce", "Retain", enclosure.ClassName(string(r.UID), ns), fmt.Sprintf(
		", claimRef: {namespace: %s, name: one}", made)) // as a provisioner makes it
	s.Eventually("the claim is bound again", func(context.Context) (bool, error) { return bound(made, "one"), nil })
	require.False(t, bound(made, "two"), "a volume that was there before is not used")
	s.Must("restore", "cancel", "r")
	require.Equal(t, rehearsal.Cancelled, resultOf(s, "r").Result)
	var volumes corev1.PersistentVolumeList
	require.NoError(t, s.Client.List(t.Context(), &volumes))
	var left []string
	for i := range volumes.Items {
		if v := &volumes.Items[i]; strings.HasPrefix(v.Name, ns) {
			left = append(left, v.Name)
			require.Equal(t, corev1.PersistentVolumeReclaimRetain, v.Spec.PersistentVolumeReclaimPolicy, v.Name)
		}
	}
	require.ElementsMatch(t, []string{ns + "-of-one", ns + "-of-two", ns + "-spare"}, left)
	requireNothingLeft(s)
}

// TestAcceptTrust_RehearsalOverdue has a restore that does not end, because the API server does not answer the creation
// of an object. After the deadline it is ended, the rehearsal has failed, and nothing is left of it.
func TestAcceptTrust_RehearsalOverdue(t *testing.T) {
	t.Parallel()
	s, g := site.NewGated(t)
	s.Serve("--config", site.ConfigFile(t, "restores: {rehearsals: {deadline: 3s}}"))
	s.Available()
	ns := s.Put(`{apiVersion: v1, kind: Namespace, metadata: {generateName: shop-}}`).GetName()
	objects(s, ns, `{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: NS}, data: {a: "1"}}`)
	s.Must("backup", "create", "b", "--include-namespaces", ns, "--wait")
	hit := g.Arm(1, site.Before, func(r *http.Request) bool {
		return r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, "/api/v1/namespaces/rehearsal-") &&
			strings.HasSuffix(r.URL.Path, "/configmaps")
	})
	defer g.Disarm()
	begin(s, "r", "b")
	s.AwaitHit(hit)
	result := resultOf(s, "r")
	require.Equal(t, rehearsal.Failed, result.Result)
	require.Contains(t, result.Text, "the restore had not ended after 3s (restores.rehearsals.deadline)")
	requireNothingLeft(s)
}
