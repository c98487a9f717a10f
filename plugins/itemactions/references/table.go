package references

import "strings"

// entry has the fields of a kind of objects that refer to namespaces.
type entry struct {
	resource string // "plural.group"
	kind     string
	fields   []field
}

// field is where an object refers to namespaces, and how. The names of the path are separated by spaces. A name that
// ends in [] is that of a list, of which all elements are meant, and * stands for all fields of an object.
type field struct {
	path string
	form form
}

// table returns the fields of all kinds but role bindings.
func table() []entry {
	const admission, gateways, monitoring = ".admissionregistration.k8s.io", ".gateway.networking.k8s.io",
		".monitoring.coreos.com"
	list := []entry{
		{"validatingwebhookconfigurations" + admission, "ValidatingWebhookConfiguration", webhooks()},
		{"mutatingwebhookconfigurations" + admission, "MutatingWebhookConfiguration", webhooks()},
		{"validatingadmissionpolicies" + admission, "ValidatingAdmissionPolicy", policy()},
		{"mutatingadmissionpolicies" + admission, "MutatingAdmissionPolicy", policy()},
		{"validatingadmissionpolicybindings" + admission, "ValidatingAdmissionPolicyBinding", policyBinding()},
		{"mutatingadmissionpolicybindings" + admission, "MutatingAdmissionPolicyBinding", policyBinding()},
		{"apiservices.apiregistration.k8s.io", "APIService", injected(field{"spec service namespace", aNamespace})},
		{"customresourcedefinitions.apiextensions.k8s.io", "CustomResourceDefinition",
			injected(field{"spec conversion webhook clientConfig service namespace", aNamespace})},
		{"flowschemas.flowcontrol.apiserver.k8s.io", "FlowSchema", []field{
			{"spec rules[] subjects[] serviceAccount namespace", aNamespace},
			{"spec rules[] subjects[] user name", anAccount}, {"spec rules[] subjects[] group name", anAccount},
			{"spec rules[] resourceRules[] namespaces", aNamespace},
		}},
		{"securitycontextconstraints.security.openshift.io", "SecurityContextConstraints",
			[]field{{"users", anAccount}, {"groups", anAccount}}},

		{"networkpolicies.networking.k8s.io", "NetworkPolicy", []field{
			{"spec ingress[] from[] namespaceSelector", aSelector}, {"spec egress[] to[] namespaceSelector", aSelector},
		}},
		{"ingressclasses.networking.k8s.io", "IngressClass", []field{{"spec parameters namespace", aNamespace}}},
		{"services", "Service", []field{{"spec externalName", aHost}}},
		{"endpoints", "Endpoints", []field{
			{"subsets[] addresses[] targetRef namespace", aNamespace},
			{"subsets[] notReadyAddresses[] targetRef namespace", aNamespace},
		}},
		{"endpointslices.discovery.k8s.io", "EndpointSlice", []field{{"endpoints[] targetRef namespace", aNamespace}}},

		{"persistentvolumeclaims", "PersistentVolumeClaim", []field{{"spec dataSourceRef namespace", aNamespace}}},
		{"persistentvolumes", "PersistentVolume", []field{
			{"spec csi nodePublishSecretRef namespace", aNamespace}, {"spec csi nodeStageSecretRef namespace", aNamespace},
			{"spec csi nodeExpandSecretRef namespace", aNamespace},
			{"spec csi controllerPublishSecretRef namespace", aNamespace},
			{"spec csi controllerExpandSecretRef namespace", aNamespace},
			{"spec * secretRef namespace", aNamespace}, {"spec azureFile secretNamespace", aNamespace},
			{"spec glusterfs endpointsNamespace", aNamespace},
			{"metadata annotations volume.kubernetes.io/provisioner-deletion-secret-namespace", aNamespace},
		}},
		{"volumesnapshotcontents.snapshot.storage.k8s.io", "VolumeSnapshotContent", []field{
			{"spec volumeSnapshotRef namespace", aNamespace},
			{"metadata annotations snapshot.storage.kubernetes.io/deletion-secret-namespace", aNamespace},
		}},
		{"storageclasses.storage.k8s.io", "StorageClass", secretsOfClass("provisioner", "controller-publish", "node-stage",
			"node-publish", "controller-expand", "node-expand")},
		{"volumesnapshotclasses.snapshot.storage.k8s.io", "VolumeSnapshotClass",
			secretsOfClass("snapshotter", "snapshotter-list")},

		{"gateways" + gateways, "Gateway", []field{
			{"spec listeners[] tls certificateRefs[] namespace", aNamespace},
			{"spec listeners[] allowedRoutes namespaces selector", aSelector},
		}},
		{"referencegrants" + gateways, "ReferenceGrant", []field{{"spec from[] namespace", aNamespace}}},

		{"servicemonitors" + monitoring, "ServiceMonitor", []field{{"spec namespaceSelector matchNames", aNamespace}}},
		{"podmonitors" + monitoring, "PodMonitor", []field{{"spec namespaceSelector matchNames", aNamespace}}},
		{"probes" + monitoring, "Probe", []field{{"spec targets ingress namespaceSelector matchNames", aNamespace}}},
	}
	for plural, kind := range map[string]string{"httproutes": "HTTPRoute", "grpcroutes": "GRPCRoute",
		"tlsroutes": "TLSRoute", "tcproutes": "TCPRoute", "udproutes": "UDPRoute"} {
		list = append(list, entry{plural + gateways, kind, []field{
			{"spec parentRefs[] namespace", aNamespace}, {"spec rules[] backendRefs[] namespace", aNamespace},
			{"spec rules[] filters[] requestMirror backendRef namespace", aNamespace},
			{"spec rules[] backendRefs[] filters[] requestMirror backendRef namespace", aNamespace},
		}})
	}
	for resource, kind := range map[string]string{"pods": "Pod", "replicationcontrollers": "ReplicationController",
		"deployments.apps": "Deployment", "statefulsets.apps": "StatefulSet", "daemonsets.apps": "DaemonSet",
		"replicasets.apps": "ReplicaSet", "jobs.batch": "Job", "cronjobs.batch": "CronJob"} {
		path := "spec template spec "
		switch kind {
		case "Pod":
			path = "spec "
		case "CronJob":
			path = "spec jobTemplate " + path
		}
		list = append(list, entry{resource, kind, affinity(path)})
	}
	return list
}

// bindings returns the fields of a kind of role bindings.
func bindings(resource, kind string) []entry {
	return []entry{{resource, kind, []field{{"subjects[]", aSubject}}}}
}

// injected adds the annotations by which cert-manager finds the certificate of a webhook.
func injected(fields ...field) []field {
	return append(fields, field{"metadata annotations cert-manager.io/inject-ca-from", aName},
		field{"metadata annotations cert-manager.io/inject-ca-from-secret", aName})
}

func webhooks() []field {
	return injected(field{"webhooks[] clientConfig service namespace", aNamespace},
		field{"webhooks[] namespaceSelector", aSelector})
}

func policy() []field {
	return []field{{"spec matchConstraints namespaceSelector", aSelector}}
}

func policyBinding() []field {
	return []field{{"spec paramRef namespace", aNamespace}, {"spec matchResources namespaceSelector", aSelector}}
}

// secretsOfClass returns the parameters of a class that name the namespaces of secrets for a CSI driver.
func secretsOfClass(uses ...string) []field {
	var fields []field
	for _, use := range uses {
		fields = append(fields, field{"parameters csi.storage.k8s.io/" + use + "-secret-namespace", aNamespace})
	}
	return fields
}

// affinity returns the fields of the affinity in a pod's spec.
func affinity(spec string) []field {
	var fields []field
	for _, path := range []string{
		"requiredDuringSchedulingIgnoredDuringExecution[]", "preferredDuringSchedulingIgnoredDuringExecution[] podAffinityTerm",
	} {
		for _, which := range []string{"podAffinity", "podAntiAffinity"} {
			term := strings.Join([]string{spec + "affinity", which, path}, " ")
			fields = append(fields, field{term + " namespaces", aNamespace}, field{term + " namespaceSelector", aSelector})
		}
	}
	return fields
}
