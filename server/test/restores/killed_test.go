package restores_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/site"
)

// TestAcceptGraph_KillEverywhere kills the server at random writes of a restore, and while a pod waits for its claim.
// The last server restores what is left, and writes nothing twice.
func TestAcceptGraph_KillEverywhere(t *testing.T) {
	t.Parallel()
	s, g := site.NewGated(t)
	attempts := []string{"--restore-attempts", "100"}
	server := s.Serve(attempts...)
	s.Available()
	ns := s.Put(`{apiVersion: v1, kind: Namespace, metadata: {generateName: killed-}}`).GetName()
	class := s.Put(fmt.Sprintf(`{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: %s},
		provisioner: kubernetes.io/no-provisioner, volumeBindingMode: Immediate}`, ns))
	t.Cleanup(func() { _ = s.Client.Delete(context.Background(), class) })
	for i := range 20 {
		s.Put(fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: c%02d, namespace: %s}, data: {a: "1"}}`, i, ns))
		s.Put(fmt.Sprintf(`{apiVersion: v1, kind: Secret, metadata: {name: s%02d, namespace: %s}}`, i, ns))
	}
	s.Put(fmt.Sprintf(`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data, namespace: %s}, spec: {
		accessModes: [ReadWriteOnce], storageClassName: %s, resources: {requests: {storage: 1Gi}}}}`, ns, ns))
	s.Put(fmt.Sprintf(`{apiVersion: v1, kind: ServiceAccount, metadata: {name: app, namespace: %s}}`, ns))
	pod := s.Put(fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: app, namespace: %s}, spec: {serviceAccountName: app,
		containers: [{name: c, image: i}], volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]}}`, ns))
	s.Must("backup", "create", "b", "--include-namespaces", ns, "--wait")

	into := ns + "-copy"
	waits := "persistentvolumeclaims/" + into + "/data to be ready"
	waiting := func() bool {
		described, _, err := s.Run("restore", "describe", "r")
		return err == nil && strings.Contains(described, waits)
	}
	seed := rand.Uint64() //nolint:gosec // it is logged
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // repeatable
	for round := range 4 {
		when := site.Before
		if random.IntN(2) == 0 {
			when = site.After
		}
		n := 1 + random.IntN(40)
		hit := g.Arm(n, when, func(r *http.Request) bool {
			return r.Method != http.MethodGet && strings.Contains(r.URL.Path, "/namespaces/"+into)
		})
		if round == 0 {
			s.Must("restore", "create", "r", "--from-backup", "b", "--namespace-mappings", ns+":"+into)
		} else {
			server = s.Serve(attempts...)
		}
		held := ""
		s.Eventually("a write is held, or the pod waits", func(context.Context) (bool, error) {
			select {
			case held = <-hit:
				return true, nil
			default:
				held = "waits"
				return waiting(), nil
			}
		})
		server.Kill()
		g.Disarm()
		t.Logf("killed %s write %d: %s", when, n, held)
	}

	server = s.Serve(attempts...)
	s.AwaitWait("restore", "r", waits)
	versions := func() map[string]string {
		found := map[string]string{}
		for _, kind := range []string{"ConfigMap", "Secret", "ServiceAccount"} {
			list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": kind}}
			require.NoError(t, s.Client.List(t.Context(), list, client.InNamespace(into)))
			for i := range list.Items {
				found[kind+" "+list.Items[i].GetName()] = list.Items[i].GetResourceVersion()
			}
		}
		return found
	}
	before := versions()
	require.GreaterOrEqual(t, len(before), 41)
	copied := pod.DeepCopy()
	copied.SetNamespace(into)
	require.Error(t, s.Client.Get(t.Context(), client.ObjectKeyFromObject(copied), copied.DeepCopy()), "the pod waits")
	server.Kill()
	s.Serve(attempts...)
	s.AwaitWait("restore", "r", waits)
	volume := s.Put(fmt.Sprintf(`{apiVersion: v1, kind: PersistentVolume, metadata: {name: %s}, spec: {capacity: {storage: 1Gi},
		accessModes: [ReadWriteOnce], storageClassName: %s, claimRef: {namespace: %s, name: data}, hostPath: {path: /none}}}`,
		into, ns, into))
	t.Cleanup(func() { s.DropVolume(volume.GetName()) })
	restore := s.AwaitEndOfRestore("r")
	require.Equal(t, velerov1.RestorePhaseCompleted, restore.Status.Phase, restore.Status.FailureReason)
	require.Zero(t, restore.Status.Warnings)
	require.Equal(t, before, versions(), "nothing is written twice")
	s.Get(copied)
}
