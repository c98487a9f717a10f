package reference

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/internal/kube/item"
)

// told returns edges as lines: the path, the object, and whether it is strict.
func told(edges []manifest.Edge) []string {
	var lines []string
	for _, e := range edges {
		what := e.To.Resource
		if what == "" {
			what = e.To.Kind
		}
		if e.To.Group != "" {
			what += "." + e.To.Group
		}
		line := fmt.Sprintf("%s -> %s %s/%s", e.Path, what, e.To.Namespace, e.To.Name)
		if e.Strict {
			line += " strict"
		}
		lines = append(lines, line)
	}
	return lines
}

// ofYAML returns the edges of an object in YAML.
func ofYAML(t testing.TB, table *Table, resource, text string) []string {
	t.Helper()
	var object any
	require.NoError(t, yaml.Unmarshal([]byte(text), &object))
	raw, err := json.Marshal(object)
	require.NoError(t, err)
	gr := schema.ParseGroupResource(resource)
	edges, err := table.Of(gr.Group, gr.Resource, "shop", raw)
	require.NoError(t, err)
	return told(edges)
}

const podSpec = `
  serviceAccountName: web
  imagePullSecrets: [{name: pull}, {}]
  priorityClassName: high
  containers:
  - env:
    - {name: A, value: a}
    - {name: B, valueFrom: {configMapKeyRef: {name: settings, key: b, optional: true}}}
    - {name: C, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
    envFrom: [{configMapRef: {name: settings}}, {secretRef: {name: env, optional: false}}]
  - env: [{name: D, valueFrom: {secretKeyRef: {name: pull, key: d}}}]
  initContainers: [{envFrom: [{configMapRef: {name: init, optional: true}}]}]
  volumes:
  - {name: data, persistentVolumeClaim: {claimName: data}}
  - {name: tmp, emptyDir: {}}
  - {name: all, projected: {sources: [{serviceAccountToken: {path: t}}, {configMap: {name: kube-root-ca.crt}}, {secret: {name: env}}]}}
  - {name: scratch, ephemeral: {volumeClaimTemplate: {spec: {storageClassName: fast}}}}
`

// podEdges returns the lines for podSpec at a path. What follows from an object to another one is once there, with the
// first path.
func podEdges(at string) []string {
	lines := []string{
		"containers[0].env[1].valueFrom.configMapKeyRef.name -> configmaps shop/settings strict",
		"containers[0].envFrom[1].secretRef.name -> secrets shop/env strict",
		"containers[1].env[0].valueFrom.secretKeyRef.name -> secrets shop/pull strict",
		"initContainers[0].envFrom[0].configMapRef.name -> configmaps shop/init",
		"priorityClassName -> priorityclasses.scheduling.k8s.io /high strict",
		"serviceAccountName -> serviceaccounts shop/web strict",
		"volumes[0].persistentVolumeClaim.claimName -> persistentvolumeclaims shop/data strict",
		"volumes[2].projected.sources[1].configMap.name -> configmaps shop/kube-root-ca.crt strict",
		"volumes[3].ephemeral.volumeClaimTemplate.spec.storageClassName -> storageclasses.storage.k8s.io /fast strict",
	}
	for i := range lines {
		lines[i] = at + "." + lines[i]
	}
	return lines
}

func TestReferencesOfPodsAndTemplates(t *testing.T) {
	t.Parallel()
	require.ElementsMatch(t, podEdges("spec"), ofYAML(t, BuiltIn(), "pods", "spec:"+podSpec))
	for _, resource := range []string{
		"deployments.apps", "daemonsets.apps", "replicasets.apps", "statefulsets.apps", "jobs.batch",
		"replicationcontrollers",
	} {
		require.ElementsMatch(t, podEdges("spec.template.spec"), ofYAML(t, BuiltIn(), resource, "spec: {template: {spec: "+
			flow(t, podSpec)+"}}"), resource)
	}
	require.ElementsMatch(t, podEdges("spec.jobTemplate.spec.template.spec"),
		ofYAML(t, BuiltIn(), "cronjobs.batch", "spec: {jobTemplate: {spec: {template: {spec: "+flow(t, podSpec)+"}}}}"))
	require.Empty(t, ofYAML(t, BuiltIn(), "configmaps", "spec: "+flow(t, podSpec)), "there are no rows")
}

func flow(t testing.TB, text string) string {
	t.Helper()
	var value any
	require.NoError(t, yaml.Unmarshal([]byte(text), &value))
	raw, err := json.Marshal(value)
	require.NoError(t, err)
	return string(raw)
}

func TestReferencesOfObjects(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		resource, object string
		want             []string
	}{
		"claims of a stateful set": {
			"statefulsets.apps", `{metadata: {name: db}, spec: {replicas: 2, volumeClaimTemplates: [{metadata: {name: data}, spec: {storageClassName: fast}}, {metadata: {name: log}}]}}`,
			[]string{
				"spec.volumeClaimTemplates[0].metadata.name -> persistentvolumeclaims shop/data-db-0 strict",
				"spec.volumeClaimTemplates[0].metadata.name -> persistentvolumeclaims shop/data-db-1 strict",
				"spec.volumeClaimTemplates[0].spec.storageClassName -> storageclasses.storage.k8s.io /fast strict",
				"spec.volumeClaimTemplates[1].metadata.name -> persistentvolumeclaims shop/log-db-0 strict",
				"spec.volumeClaimTemplates[1].metadata.name -> persistentvolumeclaims shop/log-db-1 strict",
			},
		},
		"one replica by default, from the first ordinal on": {
			"statefulsets.apps", `{metadata: {name: db}, spec: {ordinals: {start: 3}, volumeClaimTemplates: [{metadata: {name: data}}]}}`,
			[]string{"spec.volumeClaimTemplates[0].metadata.name -> persistentvolumeclaims shop/data-db-3 strict"},
		},
		"no replicas": {"statefulsets.apps",
			`{metadata: {name: db}, spec: {replicas: 0, volumeClaimTemplates: [{metadata: {name: data}}]}}`, nil},
		"replicas that are no number": {
			"statefulsets.apps", `{metadata: {name: db}, spec: {replicas: two, volumeClaimTemplates: [{metadata: {name: data}}]}}`, nil,
		},
		"claim": {
			"persistentvolumeclaims",
			`{spec: {volumeName: pv-1, storageClassName: fast, dataSourceRef: {apiGroup: snapshot.storage.k8s.io, kind: VolumeSnapshot, name: s}}}`,
			[]string{
				"spec.dataSourceRef.name -> VolumeSnapshot.snapshot.storage.k8s.io shop/s strict",
				"spec.storageClassName -> storageclasses.storage.k8s.io /fast strict",
				"spec.volumeName -> persistentvolumes /pv-1 strict",
			},
		},
		"volume": {
			"persistentvolumes", `{spec: {storageClassName: "", claimRef: {kind: PersistentVolumeClaim, namespace: bank, name: data, uid: u1}}}`,
			[]string{"spec.claimRef.name -> persistentvolumeclaims bank/data"},
		},
		"role binding": {
			"rolebindings.rbac.authorization.k8s.io",
			`{roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: "system:a"}, subjects: [{kind: User, name: eve}, {kind: ServiceAccount, name: a}, {kind: ServiceAccount, name: b, namespace: bank}]}`,
			[]string{
				"roleRef.name -> roles.rbac.authorization.k8s.io shop/system:a strict",
				"subjects[1].name -> serviceaccounts shop/a",
				"subjects[2].name -> serviceaccounts bank/b",
			},
		},
		"binding to a cluster role": {
			"rolebindings.rbac.authorization.k8s.io", `{roleRef: {kind: ClusterRole, name: view}}`,
			[]string{"roleRef.name -> clusterroles.rbac.authorization.k8s.io /view strict"},
		},
		"autoscaler": {
			"horizontalpodautoscalers.autoscaling",
			`{spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}}`,
			[]string{"spec.scaleTargetRef.name -> Deployment.apps shop/web strict"},
		},
		"autoscaler of the core group": {
			"horizontalpodautoscalers.autoscaling",
			`{spec: {scaleTargetRef: {apiVersion: v1, kind: ReplicationController, name: web}}}`,
			[]string{"spec.scaleTargetRef.name -> ReplicationController shop/web strict"},
		},
		"autoscaler of nobody knows what": {"horizontalpodautoscalers.autoscaling", `{spec: {scaleTargetRef: {name: web}}}`,
			nil},
		"ingress": {
			"ingresses.networking.k8s.io",
			`{spec: {ingressClassName: nginx, tls: [{secretName: tls}], rules: [{http: {paths: [{backend: {service: {name: a}}}, {backend: {service: {name: b}}}]}}]}}`,
			[]string{
				"spec.ingressClassName -> ingressclasses.networking.k8s.io /nginx strict",
				"spec.rules[0].http.paths[0].backend.service.name -> services shop/a",
				"spec.rules[0].http.paths[1].backend.service.name -> services shop/b",
				"spec.tls[0].secretName -> secrets shop/tls",
			},
		},
		"route of the gateway API": {
			"httproutes.gateway.networking.k8s.io",
			`{spec: {parentRefs: [{name: gw, namespace: infra}, {group: "", kind: Service, name: mesh}], rules: [{backendRefs: [{name: web, port: 80}, {group: example.io, kind: Pool, name: p}]}]}}`,
			[]string{
				"apiVersion -> customresourcedefinitions.apiextensions.k8s.io /httproutes.gateway.networking.k8s.io strict",
				"spec.parentRefs[0].name -> gateways.gateway.networking.k8s.io infra/gw strict",
				"spec.parentRefs[1].name -> Service shop/mesh strict",
				"spec.rules[0].backendRefs[0].name -> services shop/web",
				"spec.rules[0].backendRefs[1].name -> Pool.example.io shop/p",
			},
		},
		"route of OpenShift": {
			"routes.route.openshift.io",
			`{spec: {to: {kind: Service, name: web}, alternateBackends: [{name: old}, {kind: Other, name: x}]}}`,
			[]string{"spec.alternateBackends[0].name -> services shop/old", "spec.to.name -> services shop/web"},
		},
		"webhook": {
			"validatingwebhookconfigurations.admissionregistration.k8s.io",
			`{webhooks: [{clientConfig: {url: "https://x"}}, {clientConfig: {service: {name: hook, namespace: infra}}}]}`,
			[]string{"webhooks[1].clientConfig.service.name -> services infra/hook strict"},
		},
		"slice of a service": {
			"endpointslices.discovery.k8s.io", `{metadata: {labels: {kubernetes.io/service-name: web, name: x}}}`,
			[]string{`metadata.labels["kubernetes.io/service-name"] -> services shop/web strict`},
		},
		"resource without rows": {
			"widgets.example.io", `{spec: {volumeName: x}}`,
			[]string{"apiVersion -> customresourcedefinitions.apiextensions.k8s.io /widgets.example.io strict"},
		},
		"wrong types": {
			"pods", `{spec: {serviceAccountName: 5, priorityClassName: true, imagePullSecrets: {name: x}, containers: none, volumes: [[], 1, {persistentVolumeClaim: data}, {persistentVolumeClaim: {claimName: {name: a}}}]}}`, nil,
		},
		"wrong types around": {"pods", `{spec: [], metadata: 5}`, nil},
		"no names": {
			"pods", `{spec: {serviceAccountName: "", imagePullSecrets: [{name: ..}, {name: a/b}, {name: null}, {name: "a%2fb"}, {name: "` + strings.Repeat("a", 1025) + `"}]}}`, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.ElementsMatch(t, test.want, ofYAML(t, BuiltIn(), test.resource, test.object))
		})
	}
}

func TestUIDOfTheFieldIsThatOfTheReference(t *testing.T) {
	t.Parallel()
	edges := of(t, schema.GroupResource{Resource: "persistentvolumes"},
		`{"spec":{"claimRef":{"namespace":"bank","name":"data","uid":"u1"}}}`)
	require.Equal(t, manifest.Ref{Resource: "persistentvolumeclaims", Kind: "PersistentVolumeClaim", Namespace: "bank",
		Name: "data", UID: "u1"}, edges[0].To)
}

func table(t testing.TB, text string) *Table {
	t.Helper()
	var added []Row
	require.NoError(t, yaml.Unmarshal([]byte(text), &added))
	require.Empty(t, Check(added))
	made, err := New(added)
	require.NoError(t, err)
	return made
}

func TestAdditionalRows(t *testing.T) {
	t.Parallel()
	added := table(t, `
- resources: ["*.example.io"]
  paths: ["spec.keys[*]", "spec.by.*", "spec.by.*.name", 'spec.by["a.b"].kind', spec.by.plain, spec.by.plain.deep]
  to: {resource: secrets, kind: Secret}
- resources: [widgets.example.io]
  paths: [spec.template]
  as: {resource: pods, path: spec}
- resources: [pods]
  paths: [spec.own]
  to: {resource: configmaps, kind: ConfigMap, namespace: Cluster}
`)
	const object = `{spec: {keys: [k0, 1, k2], by: {a.b: {kind: kind, name: n1}, plain: p, any: v, other: {name: n2, x: y}}, template: {own: o, serviceAccountName: sa}}}`
	want := []string{
		"spec.keys[0] -> secrets shop/k0", "spec.keys[2] -> secrets shop/k2",
		`spec.by["a.b"].kind -> secrets shop/kind`, `spec.by["a.b"].name -> secrets shop/n1`,
		"spec.by.plain -> secrets shop/p", "spec.by.any -> secrets shop/v", "spec.by.other.name -> secrets shop/n2",
	}
	require.ElementsMatch(t, append(want, "apiVersion -> customresourcedefinitions.apiextensions.k8s.io "+
		"/others.example.io strict"),
		ofYAML(t, added, "others.example.io", object))
	require.ElementsMatch(t, append(want,
		"apiVersion -> customresourcedefinitions.apiextensions.k8s.io /widgets.example.io strict",
		"spec.template.own -> configmaps /o", "spec.template.serviceAccountName -> serviceaccounts shop/sa strict",
	), ofYAML(t, added, "widgets.example.io", object))
	require.Equal(t, []string{"spec.template.spec.own -> configmaps /o"},
		ofYAML(t, added, "deployments.apps", `{spec: {template: {spec: {own: o}}}}`),
		"what is added for pods holds for templates")
	require.Empty(t, ofYAML(t, BuiltIn(), "pods", `{spec: {own: o}}`))
}

func TestEscapedKeysAndRepeatedMembers(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"spec.serviceAccountName -> serviceaccounts shop/b strict"},
		told(of(t, schema.GroupResource{Resource: "pods"},
			`{"spec":{"service\u0041ccountName":"a","serviceAccountName":"b"}}`)))
}

func TestManyReferencesEndWithAMark(t *testing.T) {
	t.Parallel()
	pulls := func(n int) string {
		var names []string
		for i := range n {
			names = append(names, fmt.Sprintf(`{"name":"s%d"}`, i))
		}
		names = append(names, names...) // again
		return `{"spec":{"imagePullSecrets":[` + strings.Join(names, ",") + `]}}`
	}
	pods := schema.GroupResource{Resource: "pods"}
	edges := of(t, pods, pulls(MaxEdges))
	require.Len(t, edges, MaxEdges)
	require.Equal(t, "s9999", edges[MaxEdges-1].To.Name)

	edges = of(t, pods, pulls(MaxEdges+1))
	require.Len(t, edges, MaxEdges+1)
	require.Equal(t, manifest.Edge{Type: manifest.More}, edges[MaxEdges])

	edges = of(t, schema.GroupResource{Group: "apps", Resource: "statefulsets"},
		`{"metadata":{"name":"db"},"spec":{"replicas":2147483647,"volumeClaimTemplates":[{"metadata":{"name":"data"}}]}}`)
	require.Len(t, edges, MaxEdges+1)
}

func TestInvalidJSONIsAnError(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "{", `{"spec":{"volumes":[`, `{"spec":{"serviceAccountName":"a`, `{"spec":{1:2}}`,
		`{"spec":{"a" 5}}`} {
		_, err := BuiltIn().Of("", "pods", "shop", []byte(text))
		require.ErrorContains(t, err, "invalid JSON at byte", "%s", text)
	}
	_, err := BuiltIn().Of("", "pods", "shop", []byte(`{"spec":{}`))
	require.NoError(t, err, "the rest is not needed")
}

// FuzzOf verifies that the references of valid JSON can be read, whatever its shape, and that each of them names
// something.
func FuzzOf(f *testing.F) {
	f.Add("", "pods", []byte(`{"spec":`+flow(f, podSpec)+`}`))
	f.Add("apps", "statefulsets",
		[]byte(`{"metadata":{"name":"db"},"spec":{"replicas":2,"volumeClaimTemplates":[{"metadata":{"name":"data"}}]}}`))
	f.Add("rbac.authorization.k8s.io", "rolebindings",
		[]byte(`{"roleRef":{"kind":"Role","name":"a"},"subjects":[{"kind":"ServiceAccount","name":"\ud800"}]}`))
	f.Add("cluster.x-k8s.io", "machines",
		[]byte(`{"metadata":{"labels":{"cluster.x-k8s.io/cluster-name":"c"}},"spec":{"bootstrap":{"configRef":{"kind":"K","name":"n"}}}}`))
	f.Add("\f\xe7X", "pods", []byte(`{}`)) // no name of a definition
	f.Fuzz(func(t *testing.T, group, resource string, raw []byte) {
		_, err := item.ParseMeta(raw)
		edges, failed := BuiltIn().Of(group, resource, "shop", raw)
		if err == nil {
			require.NoError(t, failed)
		}
		require.LessOrEqual(t, len(edges), MaxEdges+1)
		for _, e := range edges {
			if e.Type == manifest.More {
				continue
			}
			require.True(t, isName(e.To.Name))
			require.NotEmpty(t, e.To.Kind)
			require.NotEmpty(t, e.Path)
		}
	})
}
