package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
	bucketmanifest "github.com/cleat-dev/cleat/server/internal/bucket/manifest"
	"github.com/cleat-dev/cleat/server/internal/bucket/reference"
	"github.com/cleat-dev/cleat/server/internal/kube/discovery"
)

// planned plans the restore of objects by the default priorities: each is "resource/namespace/name", without the
// namespace for one in none, and after a blank the fields of its JSON. It returns the order, and what each item needs
// strictly, by "resource/name".
func planned(t *testing.T, objects ...string) (order *Order, needs map[string][]string) {
	t.Helper()
	return plannedInto(t, func(namespace string) string { return namespace }, objects...)
}

// plannedInto is planned for a restore that maps namespaces.
func plannedInto(
	t *testing.T, target func(string) string, objects ...string,
) (order *Order, needs map[string][]string) {
	t.Helper()
	var packed bytes.Buffer
	w, err := archive.NewWriter(&packed, time.Unix(0, 0))
	require.NoError(t, err)
	slices.SortStableFunc(objects, strings.Compare)
	for _, text := range objects {
		path, body, _ := strings.Cut(text, " ")
		parts := strings.Split(path, "/") // resource[/namespace]/name
		gr := schema.ParseGroupResource(parts[0])
		name, namespace := parts[len(parts)-1], strings.Join(parts[1:len(parts)-1], "")
		object := map[string]any{}
		require.NoError(t, json.Unmarshal([]byte("{"+body+"}"), &object), text)
		meta, _ := object["metadata"].(map[string]any)
		if meta == nil {
			meta = map[string]any{}
		}
		meta["name"] = name
		if namespace != "" {
			meta["namespace"] = namespace
		}
		object["metadata"], object["apiVersion"], object["kind"] = meta, gr.WithVersion("v1").GroupVersion().String(),
			kindOf(gr)
		raw, err := json.Marshal(object)
		require.NoError(t, err)
		require.NoError(t, w.Item(gr, "v1", true, namespace, name, raw))
	}
	require.NoError(t, w.Close())
	backup, err := archive.Open(t.Context(), &packed, t.TempDir(), archive.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, backup.Close()) })

	var resources []discovery.Resource
	for _, gr := range backup.Resources() {
		resources = append(resources, discovery.Resource{GroupVersion: gr.WithVersion("v1").GroupVersion(),
			Name: gr.Resource, Kind: kindOf(gr), Namespaced: true})
	}
	snapshot := new(discovery.Snapshot).With(resources...)
	order = NewOrder(snapshot, false)
	level := func(gr schema.GroupResource, level int) {
		order.AddLevel(gr, level, Entries(slices.Collect(backup.Items(gr))))
	}
	level(crdsResource, 0)
	for i, gr := range DefaultPriorities().Order(backup.Resources(), snapshot) {
		if gr != crdsResource {
			level(gr, i+1)
		}
	}
	require.NoError(t, order.AddGates(backup, target))
	for item, err := range bucketmanifest.OfArchive(backup, order.Has, reference.BuiltIn()) {
		require.NoError(t, err)
		order.AddEdges(item)
	}
	order.Complete()
	needs = map[string][]string{}
	for i := range order.Len() {
		for to, strict := range order.Needs.Of(i) {
			require.LessOrEqual(t, order.Level[to], order.Level[i])
			if name := short(order.Item(to)); strict && !slices.Contains(needs[short(order.Item(i))], name) {
				needs[short(order.Item(i))] = append(needs[short(order.Item(i))], name)
			}
		}
		slices.Sort(needs[short(order.Item(i))])
	}
	return order, needs
}

func short(e archive.Entry) string { return e.GroupResource.Resource + "/" + e.Name }

func kindOf(gr schema.GroupResource) string {
	kinds := map[string]string{"namespaces": "Namespace", "pods": "Pod", "secrets": "Secret", "services": "Service",
		"serviceaccounts": "ServiceAccount", "deployments": "Deployment", "configmaps": "ConfigMap"}
	if kind, ok := kinds[gr.Resource]; ok {
		return kind
	}
	return "K" + gr.Resource
}

const (
	operator = `services/op/hooks "spec":{"selector":{"app":"op"}}`
	deployed = `deployments.apps/op/op "spec":{"template":{"metadata":{"labels":{"app":"op","x":"y"}},"spec":{
		"serviceAccountName":"op","containers":[{"name":"c","envFrom":[{"secretRef":{"name":"key"}}]}]}}}`
	converted = `customresourcedefinitions.apiextensions.k8s.io/ws.g "spec":{"group":"g","names":{"plural":"ws"},
		"conversion":{"strategy":"Webhook","webhook":{"clientConfig":{"service":{"namespace":"op","name":"hooks"}}}}}`
	webhooks = "validatingwebhookconfigurations.admissionregistration.k8s.io/"
)

// config returns a configuration of a webhook of service "hooks" that is called for what rule says.
func config(name, rule string, more ...string) string {
	return webhooks + name + ` "webhooks":[{"name":"a.b.c","failurePolicy":"Fail",` + strings.Join(append(more, ""), ",") +
		`"clientConfig":{"service":{"namespace":"op","name":"hooks"}},"rules":[` + rule + `]}]`
}

func rule(operation, group, resource string) string {
	return fmt.Sprintf(`{"operations":[%q],"apiGroups":[%q],"apiVersions":["v1"],"resources":[%q]}`, operation, group,
		resource)
}

// TestGatesOfMappedNamespaces: references follow their namespaces, so webhooks are called for the same objects, and
// served by the same ones.
func TestGatesOfMappedNamespaces(t *testing.T) {
	t.Parallel()
	order, needs := plannedInto(t, func(namespace string) string { return namespace + "2" }, `namespaces/op`,
		`namespaces/shop`, operator, deployed, `secrets/op/key`, `configmaps/shop/c`, `configmaps/op/other`,
		config("c", rule("CREATE", "", "configmaps"),
			`"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"shop"}}`))
	require.Equal(t, []string{"validatingwebhookconfigurations/c"}, needs["configmaps/c"])
	require.Empty(t, needs["configmaps/other"])
	require.Equal(t, []string{"deployments/op", "services/hooks"}, needs["validatingwebhookconfigurations/c"])
	require.True(t, order.HasService(Service{"op2", "hooks"}))
	require.False(t, order.HasService(Service{"op", "hooks"}))
}

func TestGates(t *testing.T) {
	t.Parallel()
	backend := []string{`namespaces/op`, `namespaces/shop "metadata":{"labels":{"team":"a"}}`, operator, deployed,
		`deployments.apps/op/other "spec":{"template":{"metadata":{"labels":{"app":"other"}}}}`,
		`serviceaccounts/op/op`, `secrets/op/key`, `secrets/shop/key2`, `configmaps/shop/c "metadata":{"labels":{"watch":"yes"}}`,
		`clusterroles.rbac.authorization.k8s.io/r`}
	const c = "validatingwebhookconfigurations/c"
	for name, test := range map[string]struct {
		objects []string
		needs   map[string][]string // some of them; nil for none
		cycles  map[string][]string // of the first: what does not wait for what
	}{
		"what a webhook can refuse": {[]string{config("c", rule("CREATE", "", "configmaps"))},
			map[string][]string{"configmaps/c": {c}, c: {"deployments/op", "services/hooks"}, "secrets/key2": nil,
				"deployments/other": nil}, nil},
		"another operation": {[]string{config("c", rule("UPDATE", "", "configmaps"))},
			map[string][]string{"configmaps/c": nil}, nil},
		"an equivalent version": {[]string{config("c",
			`{"operations":["*"],"apiGroups":["*"],"apiVersions":["v9"],"resources":["configmaps"]}`)},
			map[string][]string{"configmaps/c": {c}}, nil},
		"exactly another version": {[]string{config("c",
			`{"operations":["*"],"apiGroups":["*"],"apiVersions":["v9"],"resources":["configmaps"]}`, `"matchPolicy":"Exact"`)},
			map[string][]string{"configmaps/c": nil}, nil},
		"labels of the object": {[]string{config("c", rule("CREATE", "", "configmaps"),
			`"objectSelector":{"matchLabels":{"watch":"no"}}`)}, map[string][]string{"configmaps/c": nil}, nil},
		"labels of the namespace": {[]string{config("c", rule("CREATE", "", "*"),
			`"namespaceSelector":{"matchLabels":{"team":"a"}}`)},
			map[string][]string{"configmaps/c": {c, "namespaces/shop"}, "secrets/key2": {c, "namespaces/shop"},
				"secrets/key": nil},
			nil},
		"its name is a label": {[]string{config("c", rule("CREATE", "", "secrets"),
			`"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"shop"}}`)},
			map[string][]string{"secrets/key2": {c}, "secrets/key": nil}, nil},
		"a webhook that may fail": {[]string{strings.Replace(config("c", rule("*", "*", "*")), "Fail", "Ignore", 1)},
			map[string][]string{"configmaps/c": nil, c: {"services/hooks"}}, nil},
		"everything, so what serves it too": {[]string{config("c", rule("*", "*", "*"))},
			map[string][]string{"configmaps/c": {"namespaces/shop", c}, "secrets/key2": {"namespaces/shop", c},
				"secrets/key": nil, "serviceaccounts/op": nil, "namespaces/op": nil, "namespaces/shop": {c},
				"deployments/op": {"secrets/key", "serviceaccounts/op"}, "deployments/other": {c}, "clusterroles/r": nil},
			map[string][]string{c: {"deployments/op", "namespaces/op", "secrets/key", "serviceaccounts/op", "services/hooks"}}},
		"webhooks of each other": {
			[]string{config("c", rule("CREATE", "", "secrets")),
				strings.Replace(config("d", rule("CREATE", "apps", "deployments")), `"op","name":"hooks"`, `"two","name":"hooks2"`, 1),
				`services/two/hooks2 "spec":{"selector":{"app":"two"}}`,
				`deployments.apps/two/two "spec":{"template":{"metadata":{"labels":{"app":"two"}},"spec":{"volumes":[{"name":"v","secret":{"secretName":"s"}}]}}}`,
				`secrets/two/s`},
			map[string][]string{"secrets/s": {c}, "deployments/op": {"secrets/key", "serviceaccounts/op"},
				"deployments/other": {"validatingwebhookconfigurations/d"}},
			map[string][]string{c: {"secrets/key"}, "validatingwebhookconfigurations/d": {"deployments/op", "deployments/two"}}},
		"a definition with a conversion webhook": {[]string{converted,
			`ws.g/shop/w`}, map[string][]string{"ws/w": {"customresourcedefinitions/ws.g"}, "customresourcedefinitions/ws.g": nil},
			nil},
		"one whose custom resource serves it": {[]string{converted,
			`ws.g/op/w`, `secrets/op/key "metadata":{"ownerReferences":[{"apiVersion":"g/v1","kind":"Kws","name":"w","uid":"u","controller":true}]}`},
			map[string][]string{"ws/w": {"customresourcedefinitions/ws.g"}}, map[string][]string{"services/hooks": {"ws/w"}}},
		"an aggregated API": {[]string{
			`apiservices.apiregistration.k8s.io/v1.g "spec":{"group":"g","version":"v1","service":{"namespace":"op","name":"hooks"}}`,
			`ws.g/shop/w`}, map[string][]string{"ws/w": {"apiservices/v1.g"}, "apiservices/v1.g": {"deployments/op", "services/hooks"}},
			nil},
		"an API of the API server": {[]string{`apiservices.apiregistration.k8s.io/v1.g "spec":{"group":"g","version":"v1"}`,
			`ws.g/shop/w`}, map[string][]string{"ws/w": nil}, nil},
		"no objects": {[]string{webhooks + `c "webhooks":[7]`, `apiservices.apiregistration.k8s.io/v1.g "spec":7`,
			`customresourcedefinitions.apiextensions.k8s.io/ws.g "spec":[]`, `ws.g/shop/w`},
			map[string][]string{"ws/w": {"customresourcedefinitions/ws.g"}, "configmaps/c": nil}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := slices.DeleteFunc(slices.Clone(backend), func(one string) bool {
				path, _, _ := strings.Cut(one, " ")
				return slices.ContainsFunc(test.objects, func(other string) bool { return strings.HasPrefix(other, path+" ") })
			})
			order, needs := planned(t, append(objects, test.objects...)...)
			for item, want := range test.needs {
				slices.Sort(want)
				require.Equal(t, want, needs[item], item)
			}
			cycles := map[string][]string{}
			for _, cycle := range order.Cycles {
				for _, pair := range cycle.Broken {
					cycles[short(pair[1])] = append(cycles[short(pair[1])], short(pair[0]))
				}
			}
			for _, broken := range cycles {
				slices.Sort(broken)
			}
			if test.cycles == nil {
				test.cycles = map[string][]string{}
			}
			require.Equal(t, test.cycles, cycles)
			require.Equal(t, name == "a definition with a conversion webhook", order.IsConverted(0))
		})
	}
}
