package drift

import (
	"encoding/json"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// leases is the resource of objects that record the current holder of a task.
var leases = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}

// holding is a field that identifies something that an object holds, or the holder of the object. A restore does not
// change it if it is set.
type holding struct {
	why       string   // the obstacle to a change, for messages
	identity  []string // fields of a reference that identify its target; none for a field that counts as a whole
	foreign   bool     // the object is not the one of the backup any more
	unguarded bool     // the API server permits the same value in two objects, so that the field is not set either
	stale     bool     // the target of the reference may no longer exist
}

// heldFields are the fields that identify a holder or something held, by resource.
var heldFields = map[schema.GroupResource]map[string]holding{
	{Resource: "persistentvolumes"}: {
		"spec.claimRef": {why: "the volume belongs to the claim that it is bound to", identity: []string{"namespace", "name"},
			foreign: true, stale: true},
	},
	{Resource: "persistentvolumeclaims"}: {
		"spec.volumeName": {why: "the claim keeps the volume that it is bound to", foreign: true},
	},
	{Group: "snapshot.storage.k8s.io", Resource: "volumesnapshotcontents"}: {
		"spec.volumeSnapshotRef": {why: "the content belongs to the snapshot that it is bound to",
			identity: []string{"namespace", "name"}, foreign: true},
	},
	{Resource: "services"}: {
		"spec.clusterIP":           {why: "the service keeps its address"},
		"spec.clusterIPs":          {why: "the service keeps its addresses"},
		"spec.externalIPs":         {why: "addresses are not taken from one service for another", unguarded: true},
		"spec.loadBalancerIP":      {why: "addresses are not taken from one service for another", unguarded: true},
		"spec.ports[].nodePort":    {why: "the service keeps its node port"},
		"spec.healthCheckNodePort": {why: "the service keeps its node port"},
	},
	{Group: "rbac.authorization.k8s.io", Resource: "rolebindings"}:        binding,
	{Group: "rbac.authorization.k8s.io", Resource: "clusterrolebindings"}: binding,
	{Group: "apiregistration.k8s.io", Resource: "apiservices"}: {
		"spec.service": {why: "the group is served by the service that it is assigned to",
			identity: []string{"namespace", "name"}},
	},
}

var binding = map[string]holding{
	"roleRef":  {why: "the binding grants another role", identity: []string{"kind", "name"}, foreign: true},
	"subjects": {why: "subjects do not lose their rights"},
}

// same reports whether a restore may replace the value in the cluster with the value of the backup, because no object
// loses anything.
func (h holding) same(wanted, live any) bool {
	if h.identity == nil {
		return equality.Semantic.DeepEqual(wanted, live) || h.adds(wanted, live)
	}
	reference, _ := wanted.(map[string]any)
	now, _ := live.(map[string]any)
	return !slices.ContainsFunc(h.identity, func(key string) bool { return reference[key] != now[key] })
}

// adds reports whether the value of the backup is a list that has all elements of the list in the cluster, and more.
func (h holding) adds(wanted, live any) bool {
	more, _ := wanted.([]any)
	now, ok := live.([]any)
	return ok && !h.unguarded && !slices.ContainsFunc(now, func(element any) bool { return !contains(more, element) })
}

// holder returns the value of a field for messages.
func holder(value any) string {
	switch value := value.(type) {
	case nil:
		return "none"
	case string:
		return value
	case map[string]any:
		name, _ := value["name"].(string)
		if namespace, _ := value["namespace"].(string); namespace != "" {
			return namespace + "/" + name
		}
		if kind, _ := value["kind"].(string); kind != "" {
			return kind + " " + name
		}
		if name != "" {
			return name
		}
	case []any:
		const most = 3
		var words []string
		for _, element := range value[:min(most, len(value))] {
			words = append(words, holder(element))
		}
		if len(value) > most {
			words = append(words, "...")
		}
		return strings.Join(words, ", ")
	}
	text, _ := json.Marshal(value) // cannot fail for decoded JSON
	return string(text)
}

// fixed are immutable fields, except the fields below except.
type fixed struct {
	fields []string
	except []string
	always []string                       // immutable even if when returns false
	when   func(live map[string]any) bool // nil for always
}

// isSealed reports whether a ConfigMap or Secret is immutable.
func isSealed(live map[string]any) bool { return live["immutable"] == true }

// fixedFields are the immutable fields of Kubernetes' own resources.
var fixedFields = map[schema.GroupResource]fixed{
	{Resource: "configmaps"}: {fields: []string{"data", "binaryData", "immutable"}, when: isSealed},
	{Resource: "secrets"}:    {fields: []string{"data", "immutable", "type"}, always: []string{"type"}, when: isSealed},
	{Resource: "pods"}: {
		fields: []string{"spec"}, except: []string{"spec.containers[].image", "spec.initContainers[].image",
			"spec.activeDeadlineSeconds"},
	},
	{Resource: "persistentvolumeclaims"}: {
		fields: []string{"spec"}, except: []string{"spec.volumeName", "spec.resources", "spec.volumeAttributesClassName"},
	},
	{Resource: "persistentvolumes"}: {
		fields: []string{"spec"},
		except: []string{
			"spec.accessModes", "spec.capacity", "spec.claimRef", "spec.mountOptions", "spec.persistentVolumeReclaimPolicy",
			"spec.storageClassName", "spec.volumeAttributesClassName",
		},
	},
	{Resource: "services"}: {fields: []string{"spec.ipFamilies", "spec.loadBalancerClass"}},
	{Group: "batch", Resource: "jobs"}: {
		fields: []string{
			"spec.selector", "spec.template", "spec.completions", "spec.completionMode", "spec.podFailurePolicy",
			"spec.successPolicy",
			"spec.backoffLimitPerIndex", "spec.managedBy", "spec.manualSelector",
		},
	},
	{Group: "apps", Resource: "deployments"}:         {fields: []string{"spec.selector"}},
	{Group: "apps", Resource: "daemonsets"}:          {fields: []string{"spec.selector"}},
	{Group: "apps", Resource: "replicasets"}:         {fields: []string{"spec.selector"}},
	{Group: "apps", Resource: "controllerrevisions"}: {fields: []string{"data"}},
	{Group: "apps", Resource: "statefulsets"}: {
		fields: []string{"spec"},
		except: []string{
			"spec.replicas", "spec.ordinals", "spec.template", "spec.updateStrategy", "spec.revisionHistoryLimit",
			"spec.persistentVolumeClaimRetentionPolicy", "spec.minReadySeconds",
		},
	},
	{Group: "rbac.authorization.k8s.io", Resource: "rolebindings"}:        {fields: []string{"roleRef"}},
	{Group: "rbac.authorization.k8s.io", Resource: "clusterrolebindings"}: {fields: []string{"roleRef"}},
	{Group: "storage.k8s.io", Resource: "storageclasses"}: {
		fields: []string{"provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"},
	},
	{Group: "storage.k8s.io", Resource: "csidrivers"}: {fields: []string{"spec.attachRequired",
		"spec.volumeLifecycleModes"}},
	{Group: "storage.k8s.io", Resource: "volumeattachments"}: {fields: []string{"spec"}},
	{Group: "scheduling.k8s.io", Resource: "priorityclasses"}: {fields: []string{"value",
		"preemptionPolicy"}},
	{Group: "node.k8s.io", Resource: "runtimeclasses"}:                     {fields: []string{"handler"}},
	{Group: "networking.k8s.io", Resource: "ingressclasses"}:               {fields: []string{"spec.controller"}},
	{Group: "networking.k8s.io", Resource: "ipaddresses"}:                  {fields: []string{"spec"}},
	{Group: "networking.k8s.io", Resource: "servicecidrs"}:                 {fields: []string{"spec"}},
	{Group: "discovery.k8s.io", Resource: "endpointslices"}:                {fields: []string{"addressType"}},
	{Group: "resource.k8s.io", Resource: "resourceclaims"}:                 {fields: []string{"spec"}},
	{Group: "snapshot.storage.k8s.io", Resource: "volumesnapshots"}:        {fields: []string{"spec.source"}},
	{Group: "snapshot.storage.k8s.io", Resource: "volumesnapshotcontents"}: {fields: []string{"spec.source"}},
	{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}: {fields: []string{"spec.group", "spec.scope",
		"spec.names.plural", "spec.names.kind"}},
	{Group: "certificates.k8s.io", Resource: "certificatesigningrequests"}: {fields: []string{"spec"}},
}

// rules are the rules for one object.
type rules struct {
	held     map[string]holding
	fixed    fixed
	released bool // the object is a volume whose claim was deleted

	size  string // the requested size of a claim; empty for other objects
	grown bool   // the size may be that of a snapshot, see rulesOf
}

// claims is the resource of objects that request storage.
var claims = schema.GroupResource{Resource: "persistentvolumeclaims"}

// rulesOf returns the rules for an object. If a backup takes a CSI snapshot of a claim, an action (of Velero as well)
// makes the requested size in the backup as large as what is restored from the snapshot, which some drivers round up.
func rulesOf(s States) rules {
	gr, live := s.Resource, s.Live
	r := rules{held: heldFields[gr], fixed: fixedFields[gr]}
	if gr == claims {
		r.size, r.grown = "spec.resources.requests.storage", hasSnapshot(s.Archived)
	}
	if r.fixed.when != nil && !r.fixed.when(live) {
		r.fixed.fields = r.fixed.always
	}
	status, _ := live["status"].(map[string]any)
	phase, _ := status["phase"].(string)
	r.released = phase == "Released"
	return r
}

// hasSnapshot reports whether a backup names the CSI snapshot of a claim.
func hasSnapshot(claim map[string]any) bool {
	meta, _ := claim["metadata"].(map[string]any)
	for _, key := range []string{"labels", "annotations"} {
		values, _ := meta[key].(map[string]any)
		if values[velerov1.VolumeSnapshotLabel] != nil || values[velerov1.DataUploadNameAnnotation] != nil {
			return true
		}
	}
	return false
}

// isImmutable reports whether the API server refuses a change of the field.
func (r rules) isImmutable(pattern string) bool {
	within := func(field string) bool {
		rest, ok := strings.CutPrefix(pattern, field)
		return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
	}
	return slices.ContainsFunc(r.fixed.fields, within) && !slices.ContainsFunc(r.fixed.except, within)
}
