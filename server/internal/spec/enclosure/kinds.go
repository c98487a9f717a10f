package enclosure

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// kind is what is known of a resource.
type kind struct {
	fields    fields          // that are written; nil for none, so that items are only tried
	whole     bool            // all fields are written
	reason    string          // why they are only tried
	change    func(*changing) // of what is kept; nil for nothing
	annotated bool            // its annotations are for what runs inside
}

var (
	volumes   = schema.GroupResource{Resource: "persistentvolumes"}
	snapshots = schema.GroupResource{Group: "snapshot.storage.k8s.io", Resource: "volumesnapshots"}
	contents  = schema.GroupResource{Group: "snapshot.storage.k8s.io", Resource: "volumesnapshotcontents"}
)

// top returns the fields of an object with these fields beside its type and metadata.
func top(others fields) fields {
	return fieldsOf("apiVersion", "kind", "metadata").with(others)
}

// spec returns the fields of an object whose spec has these fields.
func spec(f fields) fields { return top(fields{"spec": f}) }

// kindOf returns what is known of the resource of an item.
func (r Rules) kindOf(i Item) kind {
	known, ok := kinds[i.Resource]
	if reason, opens := opening(i.Resource); opens {
		return kind{reason: reason}
	}
	switch {
	case ok && clusterScoped(i.Resource) == (i.Namespace == ""):
		return known
	case i.Namespace == "":
		return kind{reason: "it is cluster-scoped"}
	case r.allows(i.Resource):
		return kind{whole: true, annotated: true}
	}
	return kind{reason: "its controller works outside of the namespaces of the rehearsal, and " +
		"restores.rehearsals.customResources does not have " + i.Resource.String()}
}

func clusterScoped(resource schema.GroupResource) bool {
	return resource == volumes || resource == contents
}

// kinds are the resources that are written, with their fields. Their controllers are those of Kubernetes, and what
// these do stays in the namespace.
var kinds = map[schema.GroupResource]kind{
	{Resource: "configmaps"}:      {fields: top(fieldsOf("data", "binaryData", "immutable"))},
	{Resource: "secrets"}:         {fields: top(fieldsOf("data", "stringData", "type", "immutable"))},
	{Resource: "serviceaccounts"}: {fields: top(fieldsOf("secrets", "imagePullSecrets", "automountServiceAccountToken"))},
	{Resource: "limitranges"}:     {fields: spec(fieldsOf("limits"))},
	{Resource: "resourcequotas"}:  {fields: spec(fieldsOf("hard", "scopes", "scopeSelector"))},
	{Resource: "services"}:        {fields: spec(serviceFields), change: (*changing).service},

	{Resource: "pods"}: {fields: spec(podFields), change: pods("spec"), annotated: true},
	{Resource: "podtemplates"}: {fields: top(fields{"template": templateFields}), change: pods("template", "spec"),
		annotated: true},
	{Resource: "replicationcontrollers"}: workload(fieldsOf("replicas", "minReadySeconds", "selector")),
	{Group: "apps", Resource: "deployments"}: workload(fieldsOf("replicas", "selector", "strategy", "minReadySeconds",
		"revisionHistoryLimit", "paused", "progressDeadlineSeconds")),
	{Group: "apps", Resource: "replicasets"}: workload(fieldsOf("replicas", "minReadySeconds", "selector")),
	{Group: "apps", Resource: "daemonsets"}: workload(fieldsOf("selector", "updateStrategy", "minReadySeconds",
		"revisionHistoryLimit")),
	{Group: "apps", Resource: "statefulsets"}: workload(fieldsOf("replicas", "selector", "serviceName",
		"podManagementPolicy", "updateStrategy", "revisionHistoryLimit", "minReadySeconds",
		"persistentVolumeClaimRetentionPolicy", "ordinals").with(fields{"volumeClaimTemplates": claimTemplateFields})),
	{Group: "batch", Resource: "jobs"}: workload(jobFields),
	{Group: "batch", Resource: "cronjobs"}: {
		fields: spec(fieldsOf("schedule", "timeZone", "startingDeadlineSeconds", "concurrencyPolicy", "suspend",
			"successfulJobsHistoryLimit", "failedJobsHistoryLimit").with(fields{"jobTemplate": {"metadata": templateMetadata,
			"spec": jobFields.with(fields{"template": templateFields})}})),
		change: func(c *changing) {
			c.suspend()
			pods("spec", "jobTemplate", "spec", "template", "spec")(c)
		},
		annotated: true,
	},

	{Group: "autoscaling", Resource: "horizontalpodautoscalers"}: {fields: spec(fieldsOf("minReplicas", "maxReplicas",
		"scaleTargetRef", "metrics", "behavior", "targetCPUUtilizationPercentage"))},
	{Group: "policy", Resource: "poddisruptionbudgets"}: {fields: spec(fieldsOf("minAvailable", "maxUnavailable",
		"selector", "unhealthyPodEvictionPolicy"))},
	{Group: "coordination.k8s.io", Resource: "leases"}: {fields: spec(fieldsOf("holderIdentity", "leaseDurationSeconds",
		"acquireTime", "renewTime", "leaseTransitions"))},
	{Group: "rbac.authorization.k8s.io", Resource: "roles"}: {
		fields: top(fields{"rules": fieldsOf("verbs", "apiGroups", "resources", "resourceNames")}), change: (*changing).role},
	{Group: "rbac.authorization.k8s.io", Resource: "rolebindings"}: {
		fields: top(fields{"subjects": fieldsOf("kind", "apiGroup", "name", "namespace"), "roleRef": fieldsOf("kind",
			"apiGroup", "name")}), change: (*changing).roleBinding},

	{Resource: "persistentvolumeclaims"}: {fields: spec(claimFields), change: func(c *changing) {
		c.claim(c.object)
	}},
	volumes: {fields: spec(volumeFields), change: (*changing).volume},
	snapshots: {fields: spec(fields{"source": fieldsOf("volumeSnapshotContentName"), "volumeSnapshotClassName": nil}),
		change: (*changing).snapshot},
	contents: {fields: spec(fieldsOf("deletionPolicy", "driver", "volumeSnapshotClassName",
		"sourceVolumeMode").with(fields{
		"source": fieldsOf("snapshotHandle"), "volumeSnapshotRef": fieldsOf("apiVersion", "kind", "namespace", "name"),
	})), change: (*changing).content},
}

// opening reports whether objects of a resource lead in or out, or hold pods that a controller makes of them, and why
// they are not written.
func opening(resource schema.GroupResource) (reason string, open bool) {
	switch resource.Group {
	case "networking.k8s.io", "extensions":
		switch resource.Resource {
		case "ingresses":
			return "it would let traffic in", true
		case "networkpolicies":
			return "it could open the namespaces of the rehearsal", true
		}
	case "gateway.networking.k8s.io", "route.openshift.io":
		return "it would let traffic in", true
	case "", "discovery.k8s.io":
		if resource.Resource == "endpoints" || resource.Resource == "endpointslices" {
			return "it names addresses, which may be outside; Kubernetes makes those of the services", true
		}
	case "apps":
		if resource.Resource == "controllerrevisions" {
			return "its controller makes it of what is restored", true
		}
	}
	return "", false
}

// allows reports whether the objects of a custom resource are written.
func (r Rules) allows(resource schema.GroupResource) bool {
	return slices.Contains(r.CustomResources, resource.String()) ||
		resource.Group != "" && slices.Contains(r.CustomResources, "*."+resource.Group)
}

// suspend suspends a cron job.
func (c *changing) suspend() {
	spec := below(c.object, "spec")
	if spec == nil || spec["suspend"] == true {
		return
	}
	spec["suspend"] = true
	c.changed("suspended")
}

// serviceFields leave out what leads in from outside.
var serviceFields = fieldsOf("type", "clusterIP", "clusterIPs", "selector", "sessionAffinity", "sessionAffinityConfig",
	"publishNotReadyAddresses", "internalTrafficPolicy", "ipFamilies", "ipFamilyPolicy",
	"trafficDistribution").with(fields{"ports": fieldsOf("name", "protocol", "port", "targetPort", "appProtocol")})

// service makes a service reachable in its namespace only.
func (c *changing) service() {
	spec := below(c.object, "spec")
	if spec["type"] == "ExternalName" {
		c.leaveOut("it is a name for something outside of the rehearsal")
		return
	}
	if spec["clusterIP"] != "None" {
		delete(spec, "clusterIP")
		delete(spec, "clusterIPs")
	}
	if kind := spec["type"]; kind != nil && kind != "ClusterIP" {
		spec["type"] = "ClusterIP"
		c.changed("ClusterIP instead of %v", kind)
	}
}

// role keeps the rights to read: those to write could open the namespace.
func (c *changing) role() {
	var kept []any
	rules, _ := c.object["rules"].([]any)
	for _, rule := range rules {
		o, _ := rule.(object)
		verbs, _ := o["verbs"].([]any)
		reads := slices.DeleteFunc(slices.Clone(verbs), func(verb any) bool {
			return verb != "get" && verb != "list" && verb != "watch"
		})
		if len(reads) < len(verbs) {
			c.changed("without rights to write")
		}
		if o["verbs"] = reads; len(reads) > 0 {
			kept = append(kept, o)
		}
	}
	if len(kept) < len(rules) {
		c.object["rules"] = kept
	}
}

// roleBinding gives rights of a role of the namespace to service accounts of the enclosure only.
func (c *changing) roleBinding() {
	if below(c.object, "roleRef")["kind"] != "Role" {
		c.try("it gives rights of the cluster")
		return
	}
	subjects, _ := c.object["subjects"].([]any)
	inside := slices.DeleteFunc(slices.Clone(subjects), func(one any) bool {
		subject, _ := one.(object)
		return subject["kind"] != "ServiceAccount" || !c.isInside(subject["namespace"])
	})
	if len(inside) < len(subjects) {
		c.object["subjects"] = inside
		c.changed("without the subjects outside of the rehearsal")
	}
}
