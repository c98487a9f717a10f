package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"github.com/cleat-dev/cleat/framework/manifest"
)

// perNamespace is the number of items in a namespace. Their order differs from the order of a manifest.
const perNamespace = 1000

// item returns the item with a number: pods with owners and references, config maps, and secrets, as in backups of
// applications.
func item(i int) *manifest.Item {
	namespace, app := fmt.Sprintf("team-%04d", i/perNamespace), fmt.Sprintf("app-%d", i%perNamespace/50)
	made := &manifest.Item{
		APIVersion: "v1", Namespace: namespace, UID: uid(i),
		Labels: map[string]string{
			"app.kubernetes.io/name": app, "app.kubernetes.io/instance": app + "-" +
				namespace, "app.kubernetes.io/managed-by": "Helm",
		},
		Included: manifest.Inclusion{By: manifest.ByFilters},
	}
	random := uid(-i)
	switch i % 4 {
	case 0:
		made.Resource, made.ItemKind, made.Name = "configmaps", "ConfigMap", app+"-"+random[:8]
		made.Annotations = map[string]string{"meta.helm.sh/release-name": app, "meta.helm.sh/release-namespace": namespace}
	case 1:
		made.Resource, made.ItemKind, made.Name = "secrets", "Secret", app+"-"+random[:8]
	default:
		made.Resource, made.ItemKind, made.Name = "pods", "Pod", app+"-"+random[:10]+"-"+random[19:23]
		made.Labels["pod-template-hash"] = random[:10]
		made.AddOwner("apps/v1", "ReplicaSet", app+"-"+random[:10], uid(i/50), true)
		refers := func(resource, kind, name, path string) {
			made.Edges = append(made.Edges, manifest.Edge{
				Type: manifest.Reference, Strict: true, Path: path,
				To: manifest.Ref{Resource: resource, Kind: kind, Namespace: namespace, Name: name},
			})
		}
		refers("serviceaccounts", "ServiceAccount", app, "spec.serviceAccountName")
		refers("persistentvolumeclaims", "PersistentVolumeClaim", "data-"+app,
			"spec.volumes[0].persistentVolumeClaim.claimName")
	}
	return made
}

// uid returns an ID that looks random, and is always the same for a number.
func uid(i int) string {
	sum := sha256.Sum256(fmt.Append(nil, i))
	text := hex.EncodeToString(sum[:16])
	return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}

func sortedKeys(all map[string]string) []string { return slices.Sorted(maps.Keys(all)) }
