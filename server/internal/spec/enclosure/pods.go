package enclosure

import (
	"fmt"
	"maps"
	"slices"
)

// templateMetadata is kept of the metadata of what a controller makes.
var templateMetadata = fieldsOf("name", "generateName", "labels", "annotations")

// templateFields are those of a template of pods.
var templateFields = fields{"metadata": templateMetadata, "spec": podFields}

// workload returns the kind of what makes pods of a template.
func workload(f fields) kind {
	return kind{fields: spec(f.with(fields{"template": templateFields})), annotated: true, change: func(c *changing) {
		pods("spec", "template", "spec")(c)
		each(below(c.object, "spec")["volumeClaimTemplates"], c.claim)
	}}
}

// jobFields leave out managedBy, which names a controller outside.
var jobFields = fieldsOf("parallelism", "completions", "activeDeadlineSeconds", "podFailurePolicy", "successPolicy",
	"backoffLimit", "backoffLimitPerIndex", "maxFailedIndexes", "selector", "manualSelector", "ttlSecondsAfterFinished",
	"completionMode", "suspend", "podReplacementPolicy")

// podFields leave out what a pod shares with its node, its priority over other pods, and who schedules it where.
var podFields = fieldsOf("restartPolicy", "terminationGracePeriodSeconds", "activeDeadlineSeconds", "dnsPolicy",
	"nodeSelector", "serviceAccountName", "serviceAccount", "automountServiceAccountToken", "shareProcessNamespace",
	"securityContext", "imagePullSecrets", "hostname", "subdomain", "setHostnameAsFQDN", "tolerations", "hostAliases",
	"readinessGates", "runtimeClassName", "enableServiceLinks", "overhead", "topologySpreadConstraints", "os",
	"hostUsers", "resources", "volumes", "resourceClaims").with(fields{
	"containers": containerFields, "initContainers": containerFields,
	"dnsConfig": fieldsOf("searches", "options"),
	"affinity":  {"nodeAffinity": nil, "podAffinity": podAffinity, "podAntiAffinity": podAffinity},
})

// podAffinity leaves out other namespaces: an anti-affinity keeps their pods away as well.
var podAffinity = fields{
	"requiredDuringSchedulingIgnoredDuringExecution":  podAffinityTerm,
	"preferredDuringSchedulingIgnoredDuringExecution": {"weight": nil, "podAffinityTerm": podAffinityTerm},
}

var podAffinityTerm = fieldsOf("labelSelector", "topologyKey", "matchLabelKeys", "mismatchLabelKeys")

// containerFields leave out ports of the node, and hosts that the kubelet would connect to for the container.
var containerFields = fieldsOf("name", "image", "command", "args", "workingDir", "envFrom", "env", "resources",
	"resizePolicy", "restartPolicy", "restartPolicyRules", "volumeMounts", "volumeDevices", "terminationMessagePath",
	"terminationMessagePolicy", "imagePullPolicy", "securityContext", "stdin", "stdinOnce", "tty").with(fields{
	"ports":         fieldsOf("name", "containerPort", "protocol"),
	"lifecycle":     fieldsOf("stopSignal").with(fields{"postStart": handler, "preStop": handler}),
	"livenessProbe": probe, "readinessProbe": probe, "startupProbe": probe,
})

var handler = fieldsOf("exec", "sleep").with(fields{"httpGet": fieldsOf("path", "port", "scheme", "httpHeaders"),
	"tcpSocket": fieldsOf("port")})

var probe = handler.with(fieldsOf("grpc", "initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold",
	"failureThreshold", "terminationGracePeriodSeconds"))

// podVolumes are the types of volumes that a pod may have, with their fields: those without data from outside of the
// namespace.
var podVolumes = fieldsOf("configMap", "downwardAPI", "emptyDir", "image", "persistentVolumeClaim",
	"secret").with(fields{
	"ephemeral": {"volumeClaimTemplate": claimTemplateFields},
	"projected": fieldsOf("defaultMode").with(fields{"sources": fieldsOf("secret", "configMap", "downwardAPI").with(fields{
		"serviceAccountToken": fieldsOf("path", "expirationSeconds")})}),
})

// pods returns what changes the spec of pods at a path. A pod that needs directories, devices or rights of its node is
// left out.
func pods(path ...string) func(*changing) {
	return func(c *changing) {
		spec := below(c.object, path...)
		c.podVolumes(spec["volumes"])
		for _, field := range []string{"initContainers", "containers"} {
			each(spec[field], c.container)
		}
		if !isZero(spec["resourceClaims"]) {
			c.leaveOut("it needs devices of its node")
		}
		if policy := spec["dnsPolicy"]; policy != nil && policy != "ClusterFirst" {
			spec["dnsPolicy"] = "ClusterFirst"
			c.changed("with the DNS of the cluster only")
		}
	}
}

func (c *changing) podVolumes(list any) {
	if _, ok := list.([]any); list != nil && !ok {
		c.err = fmt.Errorf("volumes is not a list")
	}
	each(list, func(volume object) {
		for _, kind := range slices.Sorted(maps.Keys(volume)) {
			if _, ok := podVolumes[kind]; kind != "name" && volume[kind] != nil && !ok {
				c.leaveOut("its volume %v is of the type %s, which has data from outside of the rehearsal", volume["name"],
					kind)
			}
		}
		c.keep(volume, podVolumes.with(fieldsOf("name")), "volumes")
		if template := below(volume, "ephemeral", "volumeClaimTemplate"); template != nil {
			c.claim(template)
		}
	})
}

func (c *changing) container(container object) {
	if privileged, _ := below(container, "securityContext")["privileged"].(bool); privileged {
		c.leaveOut("its container %v is privileged, so that nothing shuts it in", container["name"])
	}
}
