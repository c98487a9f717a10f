package world

import (
	"encoding/base64"
	"fmt"
	"strings"
)

// namespaced returns the objects of the world's n-th namespace.
func namespaced(s Spec, n int) []Object {
	ns := s.Namespace(n)
	var out []Object
	out = append(out, accounts(s, ns)...)
	out = append(out, limits(ns)...)
	out = append(out, configuration(s, n, ns)...)
	out = append(out, network(s, ns)...)
	out = append(out, workloads(s, ns)...)
	out = append(out, custom(ns)...)
	return out
}

func accounts(s Spec, ns string) []Object {
	const rbac = "rbac.authorization.k8s.io/v1"
	rule := []any{fields{"apiGroups": []any{""}, "resources": []any{"configmaps"}, "verbs": []any{"get"}}}
	out := []Object{
		object("v1", "ServiceAccount", "serviceaccounts", ns, "builder", nil),
		object("v1", "ServiceAccount", "serviceaccounts", ns, "runner", fields{"automountServiceAccountToken": false}),
	}
	for _, name := range []string{"reader", "ns:Writer Of Maps", "rôle-β"} {
		out = append(out,
			object(rbac, "Role", "roles", ns, name, fields{"rules": rule}),
			object(rbac, "RoleBinding", "rolebindings", ns, name, fields{
				"roleRef":  fields{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
				"subjects": []any{fields{"kind": "ServiceAccount", "name": "builder", "namespace": ns}},
			}))
	}
	return append(out, object(rbac, "RoleBinding", "rolebindings", ns, "cluster-reader", fields{
		"roleRef":  fields{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": s.Prefix + ":reader"},
		"subjects": []any{fields{"kind": "ServiceAccount", "name": "runner", "namespace": ns}},
	}))
}

func limits(ns string) []Object {
	return []Object{
		object("v1", "LimitRange", "limitranges", ns, "defaults", fields{"spec": fields{"limits": []any{
			fields{"type": "Container", "default": fields{"cpu": "100m"}, "defaultRequest": fields{"cpu": "10m"}},
		}}}),
		object("v1", "ResourceQuota", "resourcequotas", ns, "ceiling", fields{"spec": fields{"hard": fields{"pods": "500"}}}),
	}
}

// configuration returns most of the objects: config maps and secrets with the field managers of several tools.
func configuration(s Spec, n int, ns string) []Object {
	var out []Object
	for i := range s.ConfigMaps {
		o := configMap(ns, fmt.Sprintf("settings-%03d", i), fields{"app.conf": noise(n*1000+i, 200+(i*37)%1800)})
		switch i % 4 {
		case 1:
			o = o.managedBy("helm", false).labelled("app.kubernetes.io/managed-by", "Helm")
		case 2:
			o = o.managedBy("argocd-controller", true)
		}
		if i%10 == 5 {
			o.CoManager, o.CoPatch = "autotuner", fields{"data": fields{"tuned": "yes"}}
		}
		out = append(out, o)
	}
	longest := strings.Repeat("a.very-long.name-", 14) + strings.Repeat("z", 15) // 253 characters
	out = append(out,
		configMap(ns, longest, fields{"k": "the longest legal name"}),
		configMap(ns, "a", fields{"k": "the shortest"}),
		configMap(ns, "0.1-2.x", fields{"k": "digits and dots"}),
		configMap(ns, "empty", nil),
		object("v1", "ConfigMap", "configmaps", ns, "binary", fields{
			"binaryData": fields{"bytes": base64.StdEncoding.EncodeToString([]byte{0, 1, 2, 0xff, 0xfe})}, "immutable": true,
		}),
		configMap(ns, "text", fields{"html": "<b>&amp; \u2028 \"quotes\" \\ back</b>", "utf8": "日本語 ✓ é",
			"control": "tab\tnl\n"}),
	)
	for i := range s.Secrets {
		value := base64.StdEncoding.EncodeToString([]byte(noise(n*500+i, 64+(i*13)%512)))
		out = append(out, object("v1", "Secret", "secrets", ns, fmt.Sprintf("credentials-%03d", i), fields{
			"type": "Opaque", "data": fields{"password": value},
		}))
	}
	return out
}

func network(s Spec, ns string) []Object {
	port := []any{fields{"name": "http", "port": int64(80), "protocol": "TCP", "targetPort": int64(8080)}}
	spec := func(extra fields) fields {
		out := fields{"ports": port, "selector": fields{"app": "web"}}
		for k, v := range extra {
			out[k] = v
		}
		return fields{"spec": out}
	}
	out := []Object{
		object("v1", "Service", "services", ns, "web", spec(nil)),
		object("v1", "Service", "services", ns, "headless", spec(fields{"clusterIP": "None"})),
		object("v1", "Service", "services", ns, "outside",
			fields{"spec": fields{"type": "ExternalName", "externalName": "example.org"}}),
		object("v1", "Service", "services", ns, "by-hand", fields{"spec": fields{"ports": port}}),
		object("discovery.k8s.io/v1", "EndpointSlice", "endpointslices", ns, "by-hand-1", fields{
			"addressType": "IPv4",
			"endpoints":   []any{fields{"addresses": []any{"192.0.2.10"}}},
			"ports":       []any{fields{"name": "http", "port": int64(8080), "protocol": "TCP"}},
		}).labelled("kubernetes.io/service-name", "by-hand").labelled("endpointslice.kubernetes.io/managed-by",
			"world.cleat.dev"),
		object("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", ns, "deny-all", fields{
			"spec": fields{"podSelector": fields{}, "policyTypes": []any{"Ingress"}},
		}),
		object("networking.k8s.io/v1", "Ingress", "ingresses", ns, "front", fields{"spec": fields{
			"ingressClassName": s.Prefix + "-edge",
			"rules": []any{fields{"host": ns + ".example.org", "http": fields{"paths": []any{fields{
				"path": "/", "pathType": "Prefix",
				"backend": fields{"service": fields{"name": "web", "port": fields{"number": int64(80)}}},
			}}}}},
		}}),
		object("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", ns, "web", fields{
			"spec": fields{"minAvailable": int64(1), "selector": fields{"matchLabels": fields{"app": "web"}}},
		}),
		object("coordination.k8s.io/v1", "Lease", "leases", ns, "leader", fields{
			"spec": fields{"holderIdentity": "none", "leaseDurationSeconds": int64(15)},
		}),
	}
	return out
}

func podSpec(priorityClass string) fields {
	spec := fields{
		"containers":                    []any{fields{"name": "main", "image": "registry.example/app:1"}},
		"terminationGracePeriodSeconds": int64(0),
	}
	if priorityClass != "" {
		spec["priorityClassName"] = priorityClass
	}
	return spec
}

func workloads(s Spec, ns string) []Object {
	template := func(app, restart string) fields {
		spec := podSpec("")
		if restart != "" {
			spec["restartPolicy"] = restart
		}
		return fields{"metadata": fields{"labels": fields{"app": app}}, "spec": spec}
	}
	selector := func(app string) fields { return fields{"matchLabels": fields{"app": app}} }
	job := fields{"suspend": true, "template": template("batch", "Never")}
	return []Object{
		object("apps/v1", "Deployment", "deployments", ns, "web", fields{
			"spec": fields{"replicas": int64(1), "selector": selector("web"), "template": template("web", "")},
		}).managedBy("kubectl-client-side-apply", false),
		object("apps/v1", "Deployment", "deployments", ns, "idle", fields{
			"spec": fields{"replicas": int64(0), "selector": selector("idle"), "template": template("idle", "")},
		}).managedBy("argocd-controller", true),
		object("apps/v1", "StatefulSet", "statefulsets", ns, "db", fields{
			"spec": fields{"replicas": int64(1), "serviceName": "headless", "selector": selector("db"),
				"template": template("db", "")},
		}),
		object("apps/v1", "DaemonSet", "daemonsets", ns, "agent", fields{
			"spec": fields{"selector": selector("agent"), "template": template("agent", "")},
		}),
		object("apps/v1", "ReplicaSet", "replicasets", ns, "lone", fields{
			"spec": fields{"replicas": int64(0), "selector": selector("lone"), "template": template("lone", "")},
		}),
		object("v1", "ReplicationController", "replicationcontrollers", ns, "old", fields{
			"spec": fields{"replicas": int64(0), "selector": fields{"app": "old"}, "template": template("old", "")},
		}),
		object("v1", "PodTemplate", "podtemplates", ns, "shape", fields{"template": template("shape", "")}),
		object("batch/v1", "Job", "jobs", ns, "migrate", fields{"spec": job}),
		object("batch/v1", "CronJob", "cronjobs", ns, "nightly", fields{"spec": fields{
			"schedule": "0 3 * * *", "suspend": true,
			"jobTemplate": fields{"spec": fields{"template": template("nightly", "OnFailure")}},
		}}),
		object("v1", "Pod", "pods", ns, "single", fields{"spec": podSpec(s.Prefix + "-high")}),
		object("v1", "PersistentVolumeClaim", "persistentvolumeclaims", ns, "scratch", fields{"spec": fields{
			"accessModes": []any{"ReadWriteOnce"}, "storageClassName": s.Prefix + "-manual",
			"resources": fields{"requests": fields{"storage": "1Gi"}},
		}}),
		object("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", ns, "web", fields{"spec": fields{
			"minReplicas": int64(1), "maxReplicas": int64(3),
			"scaleTargetRef": fields{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
		}}),
	}
}

// custom returns a chain of owners: a team owns apps, and an app owns components.
func custom(ns string) []Object {
	const version = Group + "/v1"
	out := []Object{object(version, "Team", "teams", ns, "core", fields{"spec": fields{"lead": "ada", "budget": 12.5}})}
	for a := range 3 {
		app := fmt.Sprintf("app-%d", a)
		out = append(out, object(version, "App", "apps", ns, app, fields{"spec": fields{"tier": int64(a)}}).ownedBy(
			"teams/core",
		))
		for c := range 2 {
			out = append(out, object(version, "Component", "components", ns, fmt.Sprintf("%s-part-%d", app, c), fields{
				"spec": fields{"nested": fields{"list": []any{int64(1), "two", nil, true, fields{}}}},
			}).ownedBy("apps/"+app))
		}
	}
	return out
}
