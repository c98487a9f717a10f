package enclosure

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// changeOf returns what changes the items of a resource; nil if they are written as they are.
func changeOf(resource schema.GroupResource) func(*changing) {
	path := map[schema.GroupResource][]string{
		{Resource: "pods"}:                        {"spec"},
		{Resource: "podtemplates"}:                {"template", "spec"},
		{Resource: "replicationcontrollers"}:      {"spec", "template", "spec"},
		{Group: "apps", Resource: "deployments"}:  {"spec", "template", "spec"},
		{Group: "apps", Resource: "statefulsets"}: {"spec", "template", "spec"},
		{Group: "apps", Resource: "daemonsets"}:   {"spec", "template", "spec"},
		{Group: "apps", Resource: "replicasets"}:  {"spec", "template", "spec"},
		{Group: "batch", Resource: "jobs"}:        {"spec", "template", "spec"},
		{Group: "batch", Resource: "cronjobs"}:    {"spec", "jobTemplate", "spec", "template", "spec"},
	}[resource]
	if path != nil {
		return func(c *changing) {
			if resource.Resource == "cronjobs" {
				c.suspend()
			}
			c.pod(below(c.object, path...))
		}
	}
	switch resource {
	case schema.GroupResource{Resource: "services"}:
		return (*changing).service
	case schema.GroupResource{Resource: "persistentvolumeclaims"}:
		return (*changing).claim
	case schema.GroupResource{Group: "rbac.authorization.k8s.io", Resource: "rolebindings"}:
		return (*changing).roleBinding
	}
	return nil
}

// volumeTypes returns the types of volumes that a pod may have: those without data from outside of the namespace.
func volumeTypes() []string {
	return []string{
		"configMap", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected", "secret",
	}
}

// pod changes the spec of a pod, so that it shares nothing with its node and has no priority over other pods. A pod
// that needs directories or rights of the node is left out.
func (c *changing) pod(spec object) {
	if spec == nil {
		return
	}
	each(spec["volumes"], func(volume object) {
		for _, kind := range slices.Sorted(maps.Keys(volume)) {
			if kind != "name" && volume[kind] != nil && !slices.Contains(volumeTypes(), kind) {
				c.leaveOut = fmt.Sprintf("its volume %v is of the type %s, which has data from outside of the rehearsal",
					volume["name"], kind)
			}
		}
	})
	for _, field := range []string{"initContainers", "containers", "ephemeralContainers"} {
		each(spec[field], c.container)
	}
	var shared []string
	for _, field := range []string{"hostNetwork", "hostPID", "hostIPC"} {
		if drop(spec, field) {
			shared = append(shared, field)
		}
	}
	if shared != nil {
		c.changed("without %s", strings.Join(shared, ", "))
	}
	if spec["dnsPolicy"] == "ClusterFirstWithHostNet" {
		spec["dnsPolicy"] = "ClusterFirst"
	}
	if drop(spec, "priorityClassName", "priority", "preemptionPolicy") {
		c.changed("without its priority over other pods")
	}
	if drop(spec, "nodeName") {
		c.changed("on any node")
	}
}

func (c *changing) container(container object) {
	if privileged, _ := below(container, "securityContext")["privileged"].(bool); privileged {
		c.leaveOut = fmt.Sprintf("its container %v is privileged, so that nothing shuts it in", container["name"])
	}
	each(container["ports"], func(port object) {
		if drop(port, "hostPort", "hostIP") {
			c.changed("without host ports")
		}
	})
}
