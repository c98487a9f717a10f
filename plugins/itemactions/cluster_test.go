package itemactions_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/plugins/itemactions"
	"github.com/cleat-dev/cleat/server/test/controlplane"
	"github.com/cleat-dev/cleat/versioning/backupitemaction"
	"github.com/cleat-dev/cleat/versioning/restoreitemaction"
)

var plane = controlplane.Shared{Common: true}

func TestMain(m *testing.M) { os.Exit(plane.Main(m)) }

// world is a namespace in a real cluster and the actions, which are connected to that cluster.
type world struct {
	*testing.T
	objects dynamic.Interface
	ns      string
	action  func(name string) restoreitemaction.Action
	restore func(name string, item *unstructured.Unstructured) *restoreitemaction.Result
	backup  func(name string, item *unstructured.Unstructured) *backupitemaction.Result
}

func newWorld(t *testing.T, namespace string) *world {
	t.Helper()
	kubeconfig := plane.Get(t).Kubeconfig
	configure := func() (*rest.Config, error) { return clientcmd.BuildConfigFromFlags("", kubeconfig) }
	config, err := configure()
	require.NoError(t, err)
	objects, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	conn := serve(t, itemactions.WithConfig(configure),
		itemactions.WithNamespace(func() (string, error) { return namespace, nil }))
	w := &world{
		T: t, objects: objects, ns: namespace,
		action: func(name string) restoreitemaction.Action { return restoreitemaction.V1().Bind(conn, name) },
		restore: func(name string, item *unstructured.Unstructured) *restoreitemaction.Result {
			result, err := restoreitemaction.V1().Bind(conn, name).Execute(t.Context(), restoreitemaction.Input{
				Item: encode(t, item), ItemFromBackup: encode(t, item), Restore: []byte(`{}`),
			})
			require.NoError(t, err)
			return result
		},
		backup: func(name string, item *unstructured.Unstructured) *backupitemaction.Result {
			result, err := backupitemaction.V1().Bind(conn, name).Execute(t.Context(), encode(t, item),
				[]byte(`{"metadata":{"name":"b"}}`))
			require.NoError(t, err)
			return result
		},
	}
	w.create("namespaces", "", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"`+namespace+`"}}`)
	return w
}

func encode(t *testing.T, item *unstructured.Unstructured) []byte {
	t.Helper()
	text, err := json.Marshal(item.Object)
	require.NoError(t, err)
	return text
}

// of returns the client for a resource, "jobs.v1.batch" or "pods", in the world's namespace or cluster-wide.
func (w *world) of(resource, namespace string) dynamic.ResourceInterface {
	gvr, _ := schema.ParseResourceArg(resource)
	if gvr == nil {
		gvr = &schema.GroupVersionResource{Version: "v1", Resource: resource}
	}
	if namespace == "" {
		return w.objects.Resource(*gvr)
	}
	return w.objects.Resource(*gvr).Namespace(namespace)
}

func (w *world) create(resource, namespace, text string) *unstructured.Unstructured {
	w.Helper()
	item := &unstructured.Unstructured{}
	require.NoError(w, item.UnmarshalJSON([]byte(text)))
	created, err := w.of(resource, namespace).Create(w.Context(), item, metav1.CreateOptions{FieldManager: "author"})
	require.NoError(w, err)
	return created
}

// again deletes an object and creates it as an action returned it, after removing the fields that every restore
// removes.
func (w *world) again(resource, action string, item *unstructured.Unstructured) *unstructured.Unstructured {
	w.Helper()
	for _, name := range []string{"uid", "resourceVersion", "creationTimestamp", "generation"} {
		unstructured.RemoveNestedField(item.Object, "metadata", name)
	}
	delete(item.Object, "status")
	now, background := int64(0), metav1.DeletePropagationBackground
	require.NoError(w, w.of(resource, w.ns).Delete(w.Context(), item.GetName(),
		metav1.DeleteOptions{GracePeriodSeconds: &now, PropagationPolicy: &background}))
	restored := &unstructured.Unstructured{}
	require.NoError(w, restored.UnmarshalJSON(w.restore(action, item).Item))
	restored.SetManagedFields(nil)
	created, err := w.of(resource, w.ns).Create(w.Context(), restored, metav1.CreateOptions{})
	require.NoError(w, err)
	return created
}

func TestServiceAccountOfRealClusterAddsItsClusterRoles(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "actions-account")
	account := w.create("serviceaccounts", w.ns, `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"web"}}`)
	w.create("clusterrolebindings.v1.rbac.authorization.k8s.io", "",
		`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding",
		"metadata":{"name":"actions-account"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"view"},
		"subjects":[{"kind":"ServiceAccount","name":"web","namespace":"actions-account"}]}`)
	require.Equal(t, []framework.ResourceIdentifier{
		{Group: "rbac.authorization.k8s.io", Resource: "clusterrolebindings", Name: "actions-account"},
		{Group: "rbac.authorization.k8s.io", Resource: "clusterroles", Name: "view"},
	}, w.backup("velero.io/service-account", account).AdditionalItems)
}

func TestTokenIsSkippedWhereItsAccountExists(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "actions-token")
	token := func(name string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
			"metadata": map[string]any{"namespace": w.ns, "name": name},
		}}
	}
	w.create("serviceaccounts", w.ns, `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"web"}}`)
	require.True(t, w.restore("velero.io/secret", token("web-token-x7k2p")).SkipRestore)
	require.False(t, w.restore("velero.io/secret", token("ada-token-x7k2p")).SkipRestore)
}

func TestAPIServerAcceptsRestoredJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "actions-job")
	const jobs = "jobs.v1.batch"
	job := w.create(jobs, w.ns, `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"once"},"spec":{"suspend":true,
		"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"a","image":"a"}]}}}}`)
	before := job.GetUID()
	restored := w.again(jobs, "velero.io/job", job)
	uid, _, err := unstructured.NestedString(restored.Object, "spec", "selector", "matchLabels",
		"batch.kubernetes.io/controller-uid")
	require.NoError(t, err)
	require.Equal(t, string(restored.GetUID()), uid)
	require.NotEqual(t, string(before), uid)
}

// The rules about node ports depend on the field ownership that the API server records.
func TestChosenNodePortIsRestoredAndAssignedOneIsNot(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "actions-service")
	service := w.create("services", w.ns, `{"apiVersion":"v1","kind":"Service","metadata":{"name":"web"},"spec":{
		"type":"LoadBalancer","externalTrafficPolicy":"Local","ports":[
			{"name":"chosen","port":80,"nodePort":31234},{"name":"assigned","port":81}]}}`)
	ports, _, err := unstructured.NestedSlice(service.Object, "spec", "ports")
	require.NoError(t, err)
	require.NotZero(t, ports[1].(map[string]any)["nodePort"], "the API server assigns one")
	require.NotZero(t, service.Object["spec"].(map[string]any)["healthCheckNodePort"])

	var made struct {
		Spec struct {
			ClusterIP           string `json:"clusterIP"`
			HealthCheckNodePort int    `json:"healthCheckNodePort"`
			Ports               []struct {
				NodePort int `json:"nodePort"`
			} `json:"ports"`
		} `json:"spec"`
	}
	require.NoError(t, json.Unmarshal(w.restore("velero.io/service", service).Item, &made))
	require.Empty(t, made.Spec.ClusterIP)
	require.Zero(t, made.Spec.HealthCheckNodePort)
	require.Equal(t, 31234, made.Spec.Ports[0].NodePort)
	require.Zero(t, made.Spec.Ports[1].NodePort)

	restored := w.again("services", "velero.io/service", service)
	ports, _, err = unstructured.NestedSlice(restored.Object, "spec", "ports")
	require.NoError(t, err)
	require.EqualValues(t, 31234, ports[0].(map[string]any)["nodePort"])
}

func TestAPIServerAcceptsRestoredPod(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "actions-pod")
	w.create("serviceaccounts", w.ns, `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"web"}}`)
	pod := w.create("pods", w.ns,
		`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},"spec":{"serviceAccountName":"web",
		"priorityClassName":"system-node-critical","nodeName":"gone","containers":[{"name":"a","image":"a"}]}}`)
	require.Contains(t, w.restore("velero.io/pod", pod).AdditionalItems,
		framework.ResourceIdentifier{Group: "scheduling.k8s.io", Resource: "priorityclasses", Name: "system-node-critical"})
	restored := w.again("pods", "velero.io/pod", pod)
	node, _, err := unstructured.NestedString(restored.Object, "spec", "nodeName")
	require.NoError(t, err)
	require.Empty(t, node)
}

// TestConfigMapsOfTheServersNamespaceReplaceNames uses ConfigMaps as users of Velero have them.
func TestConfigMapsOfTheServersNamespaceReplaceNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "actions-settings")
	settings := func(name, action, data string) {
		w.create("configmaps", w.ns, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"`+name+`","labels":{
			"velero.io/plugin-config":"","`+action+`":"RestoreItemAction"}},"data":`+data+`}`)
	}
	settings("classes", "velero.io/change-storage-class",
		`{"gp2":"actions-settings-gp3","lost":"actions-settings-nowhere"}`)
	settings("images", "velero.io/change-image-name", `{"rule":"docker.io,mirror.example.io"}`)
	w.create("storageclasses.v1.storage.k8s.io", "",
		`{"apiVersion":"storage.k8s.io/v1","kind":"StorageClass","metadata":{"name":"actions-settings-gp3"},"provisioner":"example.io/none"}`)
	object := func(text string) *unstructured.Unstructured {
		item := &unstructured.Unstructured{}
		require.NoError(t, item.UnmarshalJSON([]byte(text)))
		return item
	}
	claim := object(`{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"a"},"spec":{"storageClassName":"gp2"}}`)
	require.Contains(t, string(w.restore("velero.io/change-storage-class", claim).Item),
		`"storageClassName":"actions-settings-gp3"`)
	pod := object(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[{"name":"a","image":"docker.io/web"}]}}`)
	require.Contains(t, string(w.restore("velero.io/change-image-name", pod).Item), `"image":"mirror.example.io/web"`)
	definition := object(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"a"},"spec":{"preserveUnknownFields":true}}`)
	require.JSONEq(t, string(encode(t, definition)), string(w.backup("velero.io/crd-remap-version", definition).Item),
		"this cluster does not serve v1beta1")
}

func TestTwoConfigMapsForOneActionAreAnError(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "actions-two-settings")
	for _, name := range []string{"one", "two"} {
		w.create("configmaps", w.ns, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"`+name+`","labels":{
			"velero.io/plugin-config":"","velero.io/change-image-name":"RestoreItemAction"}}}`)
	}
	item := []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}`)
	_, err := w.action("velero.io/change-image-name").Execute(t.Context(),
		restoreitemaction.Input{Item: item, ItemFromBackup: item, Restore: []byte(`{}`)})
	require.EqualError(t, err, "RestoreItemAction(velero.io/change-image-name): the ConfigMap that configures "+
		"velero.io/change-image-name: "+
		"config maps one, two of namespace actions-two-settings all have the labels "+
		"velero.io/plugin-config,velero.io/change-image-name=RestoreItemAction, want one")
}

// No API server of today serves v1beta1, so a small one stands for those of before Kubernetes 1.22.
func TestDefinitionIsReadAsV1beta1WhereItIsServed(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/apis/apiextensions.k8s.io":
			_, _ = w.Write([]byte(`{"kind":"APIGroup","apiVersion":"v1","name":"apiextensions.k8s.io","versions":[{"version":"v1"},{"version":"v1beta1"}]}`))
		case "/apis/apiextensions.k8s.io/v1beta1/customresourcedefinitions/a.example.org":
			_, _ = w.Write([]byte(`{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1beta1","metadata":{"name":"a.example.org"},"spec":{"version":"v1"}}`))
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(server.Close)
	conn := serve(t, itemactions.WithConfig(func() (*rest.Config, error) { return &rest.Config{Host: server.URL}, nil }))
	result, err := backupitemaction.V1().Bind(conn, "velero.io/crd-remap-version").Execute(t.Context(),
		[]byte(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"a.example.org"},"spec":{"preserveUnknownFields":true}}`), []byte(`{}`))
	require.NoError(t, err)
	require.JSONEq(t, `{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1beta1","metadata":{"name":"a.example.org"},"spec":{"version":"v1"}}`, string(result.Item))
}
