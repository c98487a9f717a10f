package fleet

import (
	"encoding/json"
	"fmt"
	"strings"
)

type obj = map[string]any

// Object is an object as it is in a backup.
type Object struct {
	Resource  string // with its group: "machines.cluster.x-k8s.io"
	Version   string
	Namespace string // empty for a cluster-scoped object
	Name      string
	Body      []byte // JSON
}

// NewObject returns an object. Fields of extra are added to the top level, "metadata" is merged.
func NewObject(resource, apiVersion, kind, namespace, name string, extra obj) Object {
	meta := obj{"name": name}
	if namespace != "" {
		meta["namespace"] = namespace
	}
	object := obj{"apiVersion": apiVersion, "kind": kind, "metadata": meta}
	for key, value := range extra {
		if more, ok := value.(obj); ok && key == "metadata" {
			for k, v := range more {
				meta[k] = v
			}
			continue
		}
		object[key] = value
	}
	body, err := json.Marshal(object)
	if err != nil {
		panic(err) // it is made of maps and strings
	}
	return Object{resource, apiVersion[strings.IndexByte(apiVersion, '/')+1:], namespace, name, body}
}

// The kinds of Cluster API, by their resources, each with the fields of its spec.
var kinds = map[string]struct {
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

// Definitions returns the definitions of all kinds.
func Definitions() (all []Object) {
	for resource := range kinds {
		all = append(all, definition(resource))
	}
	return all
}

// Resources returns the resources of all kinds, with their groups.
func Resources() (all []string) {
	for resource := range kinds {
		all = append(all, resource)
	}
	return all
}

func definition(resource string) Object {
	plural, group, _ := strings.Cut(resource, ".")
	kind := kinds[resource].kind
	return NewObject("customresourcedefinitions.apiextensions.k8s.io", "apiextensions.k8s.io/v1",
		"CustomResourceDefinition", "", resource, obj{"spec": obj{
			"group": group, "scope": "Namespaced",
			"names": obj{"plural": plural, "singular": strings.ToLower(kind), "kind": kind, "listKind": kind + "List"},
			"versions": []obj{{"name": "v1beta1", "served": true, "storage": true, "subresources": obj{"status": obj{}},
				"schema": obj{"openAPIV3Schema": obj{"type": "object", "properties": obj{
					"spec":   obj{"type": "object", "properties": kinds[resource].spec},
					"status": obj{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
				}}}}},
		}})
}

// New returns a namespace with clusters. Each has two machine deployments with so many machines.
func New(namespace string, clusters, machines int) []Object {
	f := &fleet{ns: namespace, all: []Object{NewObject("namespaces", "v1", "Namespace", "", namespace, nil)}}
	for i := range clusters {
		f.cluster(fmt.Sprintf("c%02d", i), machines)
	}
	return f.all
}

// fleet makes the objects of clusters in a namespace.
type fleet struct {
	ns  string
	all []Object
}

// add adds an object of a cluster and returns it. The webhook admits it when owner and needs exist.
func (f *fleet) add(resource, cluster, name string, owner *Object, spec obj, needs ...Object) Object {
	_, group, _ := strings.Cut(resource, ".")
	meta := obj{"uid": resource + name}
	if cluster != "" {
		meta["labels"] = obj{"cluster.x-k8s.io/cluster-name": cluster}
		needs = append(needs, Object{Resource: "clusters.cluster.x-k8s.io", Version: "v1beta1", Namespace: f.ns,
			Name: cluster})
	}
	if owner != nil {
		_, ownerGroup, _ := strings.Cut(owner.Resource, ".")
		meta["ownerReferences"] = []obj{{"apiVersion": ownerGroup + "/v1beta1", "kind": kinds[owner.Resource].kind,
			"name": owner.Name, "uid": owner.Resource + owner.Name, "controller": true}}
		needs = append(needs, *owner)
	}
	var paths []string
	for _, one := range needs {
		paths = append(paths, one.path())
	}
	meta["annotations"] = obj{"needs": strings.Join(paths, ",")}
	one := NewObject(resource, group+"/v1beta1", kinds[resource].kind, f.ns, name, obj{"metadata": meta, "spec": spec})
	f.all = append(f.all, one)
	return one
}

// path returns the path of a custom resource in the API.
func (o Object) path() string {
	plural, group, _ := strings.Cut(o.Resource, ".")
	return fmt.Sprintf("/apis/%s/%s/namespaces/%s/%s/%s", group, o.Version, o.Namespace, plural, o.Name)
}

func refTo(one Object) obj {
	_, group, _ := strings.Cut(one.Resource, ".")
	return obj{"apiVersion": group + "/v1beta1", "kind": kinds[one.Resource].kind, "name": one.Name}
}

// cluster adds a cluster with machines in two machine deployments.
func (f *fleet) cluster(name string, machines int) {
	infrastructure := Object{Resource: "exampleclusters.infrastructure.cluster.x-k8s.io", Name: name}
	cluster := f.add("clusters.cluster.x-k8s.io", "", name, nil, obj{"infrastructureRef": refTo(infrastructure)})
	f.add(infrastructure.Resource, name, name, &cluster, obj{"region": "north"})
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
				"infrastructureRef": refTo(Object{Resource: "examplemachines.infrastructure.cluster.x-k8s.io", Name: of}),
				"bootstrap": obj{"dataSecretName": of,
					"configRef": refTo(Object{Resource: "exampleconfigs.bootstrap.cluster.x-k8s.io", Name: of})}})
			f.add("examplemachines.infrastructure.cluster.x-k8s.io", name, of, &one, obj{"size": 2})
			configured := f.add("exampleconfigs.bootstrap.cluster.x-k8s.io", name, of, &one, obj{"format": "ini"})
			f.all = append(f.all, NewObject("secrets", "v1", "Secret", f.ns, of, obj{"metadata": obj{
				"labels": obj{"cluster.x-k8s.io/cluster-name": name},
				"ownerReferences": []obj{{"apiVersion": "bootstrap.cluster.x-k8s.io/v1beta1", "kind": "ExampleConfig",
					"name": of, "uid": configured.Resource + of, "controller": true}}}}))
		}
	}
}
