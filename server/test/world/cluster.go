package world

import "strings"

// clusterScoped returns the world's namespaces, CRDs and other cluster-scoped objects.
func clusterScoped(s Spec) []Object {
	var out []Object
	for n := range s.Namespaces {
		ns := object("v1", "Namespace", "namespaces", "", s.Namespace(n), nil)
		ns.SetAnnotations(map[string]string{"world.cleat.dev/owner": "team " + s.Namespace(n)})
		out = append(out, ns)
	}
	for _, kind := range []string{"Team", "App", "Component"} {
		out = append(out, crd(kind))
	}
	out = append(out,
		object("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", "", s.Prefix+":reader", fields{
			"rules": []any{fields{"apiGroups": []any{""}, "resources": []any{"pods"}, "verbs": []any{"get", "list"}}},
		}),
		// Names of RBAC objects are path segments: capitals, colons, blanks and letters of any alphabet are legal.
		object("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", "", s.Prefix+":Équipe α reader", fields{
			"rules": []any{fields{"apiGroups": []any{"apps"}, "resources": []any{"deployments"}, "verbs": []any{"*"}}},
		}),
		object("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "clusterrolebindings", "", s.Prefix+":readers", fields{
			"roleRef":  fields{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": s.Prefix + ":reader"},
			"subjects": []any{fields{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "readers"}},
		}),
		object("storage.k8s.io/v1", "StorageClass", "storageclasses", "", s.Prefix+"-manual", fields{
			"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer",
		}),
		object("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", "", s.Prefix+"-high", fields{
			"value": int64(1000), "globalDefault": false, "description": "the world's important pods",
		}),
		object("networking.k8s.io/v1", "IngressClass", "ingressclasses", "", s.Prefix+"-edge", fields{
			"spec": fields{"controller": "world.cleat.dev/edge"},
		}),
		object("node.k8s.io/v1", "RuntimeClass", "runtimeclasses", "", s.Prefix+"-sandbox", fields{"handler": "sandbox"}),
	)
	for i := range out {
		out[i] = out[i].labelled(Label, s.Prefix)
	}
	return out
}

// crd returns a custom resource definition with a status subresource and a spec without a schema.
func crd(kind string) Object {
	singular := strings.ToLower(kind)
	return object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", "", singular+"s."+
		Group, fields{
		"spec": fields{
			"group": Group,
			"scope": "Namespaced",
			"names": fields{"kind": kind, "listKind": kind + "List", "plural": singular + "s", "singular": singular},
			"versions": []any{fields{
				"name": "v1", "served": true, "storage": true,
				"subresources": fields{"status": fields{}},
				"schema": fields{"openAPIV3Schema": fields{
					"type": "object",
					"properties": fields{
						"spec":   fields{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
						"status": fields{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
					},
				}},
			}},
		},
	})
}
