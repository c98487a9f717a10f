package restore

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The kinds of Cluster API, by their resources, each with the fields of its spec.
var clusterAPI = map[string]struct {
	kind string
	spec obj
}{
	"clusters.cluster.x-k8s.io":                               {"Cluster", obj{"infrastructureRef": objectRef}},
	"machinedeployments.cluster.x-k8s.io":                     {"MachineDeployment", replicated},
	"machinesets.cluster.x-k8s.io":                            {"MachineSet", replicated},
	"machines.cluster.x-k8s.io":                               {"Machine", machine},
	"examplemachines.infrastructure.cluster.x-k8s.io":         {"ExampleMachine", obj{"size": integer}},
	"examplemachinetemplates.infrastructure.cluster.x-k8s.io": {"ExampleMachineTemplate", obj{"size": integer}},
	"exampleclusters.infrastructure.cluster.x-k8s.io":         {"ExampleCluster", obj{"region": mandatory}},
	"exampleconfigs.bootstrap.cluster.x-k8s.io":               {"ExampleConfig", obj{"format": mandatory}},
	"exampleconfigtemplates.bootstrap.cluster.x-k8s.io":       {"ExampleConfigTemplate", obj{"format": mandatory}},
}

var (
	integer   = obj{"type": "integer", "format": "int32"}
	mandatory = obj{"type": "string", "minLength": 1}
	objectRef = obj{"type": "object", "required": []string{"apiVersion", "kind", "name"}, "properties": obj{
		"apiVersion": mandatory, "kind": mandatory, "name": mandatory}}
	machine = obj{"clusterName": mandatory, "infrastructureRef": objectRef, "bootstrap": obj{"type": "object",
		"properties": obj{"configRef": objectRef, "dataSecretName": obj{"type": "string"}}}}
	template   = obj{"type": "object", "properties": obj{"spec": obj{"type": "object", "properties": machine}}}
	replicated = obj{"clusterName": mandatory, "replicas": integer, "template": template}
)

// clusterDefinition returns the definition of a kind of Cluster API.
func clusterDefinition(resource string) thing {
	plural, group, _ := strings.Cut(resource, ".")
	kind := clusterAPI[resource].kind
	return in("customresourcedefinitions.apiextensions.k8s.io", "apiextensions.k8s.io/v1", "CustomResourceDefinition", "",
		resource, obj{"spec": obj{
			"group": group, "scope": "Namespaced",
			"names": obj{"plural": plural, "singular": strings.ToLower(kind), "kind": kind, "listKind": kind + "List"},
			"versions": []obj{{"name": "v1beta1", "served": true, "storage": true, "subresources": obj{"status": obj{}},
				"schema": obj{"openAPIV3Schema": obj{"type": "object", "properties": obj{
					"spec":   obj{"type": "object", "properties": clusterAPI[resource].spec},
					"status": obj{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
				}}}}},
		}})
}

// fleet makes the objects of clusters of Cluster API in a namespace.
type fleet struct {
	ns     string
	things []thing
}

// add adds an object of a cluster and returns it. The webhook admits it when owner and needs exist.
func (f *fleet) add(resource, cluster, name string, owner *thing, spec obj, needs ...thing) thing {
	_, group, _ := strings.Cut(resource, ".")
	meta := obj{"uid": resource + name}
	if cluster != "" {
		meta["labels"] = obj{"cluster.x-k8s.io/cluster-name": cluster}
		needs = append(needs, thing{gr: "clusters.cluster.x-k8s.io", version: "v1beta1", namespace: f.ns, name: cluster})
	}
	if owner != nil {
		_, ownerGroup, _ := strings.Cut(owner.gr, ".")
		meta["ownerReferences"] = []obj{{"apiVersion": ownerGroup + "/v1beta1", "kind": clusterAPI[owner.gr].kind,
			"name": owner.name, "uid": owner.gr + owner.name, "controller": true}}
		needs = append(needs, *owner)
	}
	var paths []string
	for _, one := range needs {
		paths = append(paths, pathOf(one, true))
	}
	meta["annotations"] = obj{"needs": strings.Join(paths, ",")}
	one := in(resource, group+"/v1beta1", clusterAPI[resource].kind, f.ns, name, obj{"metadata": meta, "spec": spec})
	f.things = append(f.things, one)
	return one
}

func refTo(one thing) obj {
	_, group, _ := strings.Cut(one.gr, ".")
	return obj{"apiVersion": group + "/v1beta1", "kind": clusterAPI[one.gr].kind, "name": one.name}
}

// cluster adds a cluster with machines in two machine deployments.
func (f *fleet) cluster(name string, machines int) {
	infrastructure := thing{gr: "exampleclusters.infrastructure.cluster.x-k8s.io", name: name}
	cluster := f.add("clusters.cluster.x-k8s.io", "", name, nil, obj{"infrastructureRef": refTo(infrastructure)})
	f.add(infrastructure.gr, name, name, &cluster, obj{"region": "north"})
	for _, pool := range []string{name + "-a", name + "-b"} {
		size := f.add("examplemachinetemplates.infrastructure.cluster.x-k8s.io", name, pool, nil, obj{"size": 2})
		config := f.add("exampleconfigtemplates.bootstrap.cluster.x-k8s.io", name, pool, nil, obj{"format": "ini"})
		spec := func() obj {
			return obj{"clusterName": name, "replicas": machines, "template": obj{"spec": obj{"clusterName": name,
				"infrastructureRef": refTo(size), "bootstrap": obj{"configRef": refTo(config)}}}}
		}
		deployment := f.add("machinedeployments.cluster.x-k8s.io", name, pool, nil, spec(), size, config)
		set := f.add("machinesets.cluster.x-k8s.io", name, pool+"-0", &deployment, spec(), size, config)
		for i := range machines {
			of := fmt.Sprint(pool, "-", i)
			one := f.add("machines.cluster.x-k8s.io", name, of, &set, obj{"clusterName": name,
				"infrastructureRef": refTo(thing{gr: "examplemachines.infrastructure.cluster.x-k8s.io", name: of}),
				"bootstrap": obj{"dataSecretName": of,
					"configRef": refTo(thing{gr: "exampleconfigs.bootstrap.cluster.x-k8s.io", name: of})}})
			f.add("examplemachines.infrastructure.cluster.x-k8s.io", name, of, &one, obj{"size": 2})
			configured := f.add("exampleconfigs.bootstrap.cluster.x-k8s.io", name, of, &one, obj{"format": "ini"})
			f.things = append(f.things, in("secrets", "v1", "Secret", f.ns, of, obj{"metadata": obj{
				"labels": obj{"cluster.x-k8s.io/cluster-name": name},
				"ownerReferences": []obj{{"apiVersion": "bootstrap.cluster.x-k8s.io/v1beta1", "kind": "ExampleConfig",
					"name": of, "uid": configured.gr + of, "controller": true}}}}))
		}
	}
}

// TestAcceptGraph_ClusterAPI restores some 2,000 objects in the shape of Cluster API with their definitions and the
// operator that serves their webhooks, which refuse an object whose references are missing. None is refused.
func TestAcceptGraph_ClusterAPI(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ns := unique(t, "fleet")
	o := newOperator(t, c, ns+"-operator")
	f := &fleet{ns: ns, things: []thing{namespaceThing(ns, nil)}}
	const clusters, machines = 20, 11
	for i := range clusters {
		f.cluster(fmt.Sprintf("c%02d", i), machines)
	}
	objects := len(f.things)
	require.Greater(t, objects, 1900)
	configuration := o.configuration(ns, "*", "*")
	configuration.body = []byte(strings.Replace(string(configuration.body), `"apiGroups":["*"]`,
		`"apiGroups":["cluster.x-k8s.io","infrastructure.cluster.x-k8s.io","bootstrap.cluster.x-k8s.io"]`, 1))
	things := slices.Concat(f.things, []thing{configuration})
	t.Cleanup(func() { c.call(http.MethodDelete, pathOf(configuration, true), "", nil) })
	for resource := range clusterAPI {
		definition := clusterDefinition(resource)
		things = append(things, definition)
		t.Cleanup(func() { c.call(http.MethodDelete, pathOf(definition, true), "", nil) })
	}
	operated := o.things()
	things = append(things, operated...)
	ended := make(chan *Result, 1)
	go func() { ended <- c.mustRestore(pack(t, things...), withOwners("r", nil)) }()
	c.await(operated[len(operated)-1])
	time.Sleep(2 * time.Second)
	o.run()
	began := time.Now()
	result := <-ended
	t.Logf("restored %d objects within %s of the start of the operator", len(things), time.Since(began))
	require.Zero(t, result.Results.Errors.Count()+result.Results.Warnings.Count(), "%+v", result.Results)
	require.Len(t, created(result, ""), len(things))
	var refused []string
	for _, line := range o.answers() {
		if strings.Contains(line, " refused ") {
			refused = append(refused, line)
		}
	}
	require.Empty(t, refused[:min(10, len(refused))], "%d objects were asked for before what they refer to", len(refused))
	f.checkOwners(c)
}

// checkOwners compares the owners of all objects with those of the backup, and their UIDs with those in the cluster.
func (f *fleet) checkOwners(c *cluster) {
	c.t.Helper()
	uids, owners := map[string]any{}, map[string]obj{} // by kind and name
	resources := map[string]string{"secrets": "v1"}
	for resource := range clusterAPI {
		resources[resource] = "v1beta1"
	}
	for resource, version := range resources {
		all := c.get(pathOf(thing{gr: resource, version: version, namespace: f.ns}, false))
		kind := strings.TrimSuffix(fmt.Sprint(all["kind"]), "List")
		items, _ := all["items"].([]any)
		for _, one := range items {
			name := fmt.Sprint(kind, "/", dig(one, "metadata", "name"))
			uids[name] = dig(one, "metadata", "uid")
			if refs, _ := dig(one, "metadata", "ownerReferences").([]any); len(refs) == 1 {
				owners[name], _ = refs[0].(obj)
			}
		}
	}
	owned := 0
	for _, one := range f.things {
		object := objectOf(one)
		refs, _ := dig(object, "metadata", "ownerReferences").([]any)
		for _, ref := range refs {
			owned++
			name := fmt.Sprint(object["kind"], "/", one.name)
			require.NotNil(c.t, owners[name], name)
			owner := fmt.Sprint(dig(ref, "kind"), "/", dig(ref, "name"))
			require.Equal(c.t, owner, fmt.Sprint(owners[name]["kind"], "/", owners[name]["name"]), name)
			require.NotEmpty(c.t, uids[owner], owner)
			require.Equal(c.t, uids[owner], owners[name]["uid"], name)
			require.Equal(c.t, true, owners[name]["controller"], name)
		}
	}
	require.Greater(c.t, owned, 1800)
}
