package enclosure

import (
	"slices"
	"strings"
)

// suspend suspends a cron job.
func (c *changing) suspend() {
	spec := below(c.object, "spec")
	if spec == nil || spec["suspend"] == true {
		return
	}
	spec["suspend"] = true
	c.changed("suspended")
}

// service makes a service reachable in its namespace only.
func (c *changing) service() {
	c.dropNames()
	spec := below(c.object, "spec")
	if spec == nil {
		return
	}
	if spec["clusterIP"] != "None" {
		drop(spec, "clusterIP", "clusterIPs")
	}
	if kind := spec["type"]; kind == "LoadBalancer" || kind == "NodePort" {
		spec["type"] = "ClusterIP"
		c.changed("ClusterIP instead of %v", kind)
	}
	each(spec["ports"], func(port object) {
		if drop(port, "nodePort") {
			c.changed("without node ports")
		}
	})
	if drop(spec, "externalIPs") {
		c.changed("without external IPs")
	}
	if drop(spec, "loadBalancerIP", "loadBalancerClass", "loadBalancerSourceRanges", "allocateLoadBalancerNodePorts",
		"externalTrafficPolicy", "healthCheckNodePort") && len(c.changes) == 0 {
		c.changed("without the settings of a load balancer")
	}
}

// dropNames removes annotations by which names are published in the DNS.
func (c *changing) dropNames() {
	annotations := below(c.object, "metadata", "annotations")
	for key := range annotations {
		if strings.HasPrefix(key, "external-dns.alpha.kubernetes.io/") {
			delete(annotations, key)
			c.changed("without names in the DNS")
		}
	}
}

// claim keeps a claim from a volume that is not made for it.
func (c *changing) claim() {
	if spec := below(c.object, "spec"); spec != nil && drop(spec, "selector") {
		c.changed("without its selector of volumes")
	}
}

// roleBinding gives rights in the namespace to service accounts of the enclosure only.
func (c *changing) roleBinding() {
	subjects, _ := c.object["subjects"].([]any)
	inside := slices.DeleteFunc(slices.Clone(subjects), func(one any) bool {
		subject, _ := one.(object)
		in, _ := subject["namespace"].(string)
		return subject["kind"] != "ServiceAccount" || !slices.Contains(c.rules.Namespaces, in)
	})
	if len(inside) < len(subjects) {
		c.object["subjects"] = inside
		c.changed("without the subjects outside of the rehearsal")
	}
}
