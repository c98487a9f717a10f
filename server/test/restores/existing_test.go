package restores_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cleat-dev/cleat/server/internal/kube/results"
	"github.com/cleat-dev/cleat/server/test/site"
)

// over restores a backup and returns the warnings of the restore, one per line. The restore has no errors.
func over(s *site.Site, name, backup string, args ...string) string {
	s.T.Helper()
	s.Must(append([]string{"restore", "create", name, "--from-backup", backup, "--wait"}, args...)...)
	found := site.ReadJSON[results.Results](s.T, s, "restores", name, "restore-"+name+"-results.gz")
	require.Zero(s.T, found.Errors.Count(), "%+v", found.Errors)
	lines := slices.Concat(found.Warnings.Velero, found.Warnings.Cluster)
	for _, of := range found.Warnings.Namespaces {
		lines = append(lines, of...)
	}
	return strings.Join(lines, "\n")
}

const unchangedWorkload = `
{apiVersion: v1, kind: Service, metadata: {name: s, namespace: NS}, spec: {selector: {a: d}, ports: [{port: 80}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: np, namespace: NS}, spec: {type: NodePort, selector: {a: d}, ports: [{name: a, port: 80}, {name: b, port: 81}]}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: j, namespace: NS}, spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: "x.invalid/x:1", args: ["sleep 9999"]}]}}}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, namespace: NS}, spec: {selector: {matchLabels: {a: d}}, template: {metadata: {labels: {a: d}}, spec: {containers: [{name: c, image: "x.invalid/x:1"}]}}}}
---
{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: set, namespace: NS}, spec: {serviceName: s, selector: {matchLabels: {a: set}}, template: {metadata: {labels: {a: set}}, spec: {containers: [{name: c, image: "x.invalid/x:1"}]}}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: own, namespace: NS}, spec: {containers: [{name: c, image: "x.invalid/x:1"}], volumes: [{name: v, persistentVolumeClaim: {claimName: c}}]}}
---
{apiVersion: v1, kind: Secret, metadata: {name: token, namespace: NS, annotations: {kubernetes.io/service-account.name: default}}, type: kubernetes.io/service-account-token}
`

// TestAcceptRestore_Existing restores over existing objects. Unchanged objects are neither reported nor written,
// although the restore resets fields of them; changed objects are updated or named in a warning.
func TestAcceptRestore_Existing(t *testing.T) {
	t.Parallel()
	t.Run("unchanged", func(t *testing.T) { t.Parallel(); testUnchanged(t) })
	t.Run("changed", func(t *testing.T) { t.Parallel(); testChanged(t) })
}

func testUnchanged(t *testing.T) {
	s, g := site.NewGated(t)
	s.Serve()
	s.Available()
	ns := s.Put(`{apiVersion: v1, kind: Namespace, metadata: {generateName: cove-, labels: {team: ink}}}`).GetName()
	kept, deleted := ns+"-kept", ns+"-deleted"
	s.BoundClaim(kept, ns, "c", "Retain")
	s.BoundClaim(deleted, ns, "d", "Delete")
	for _, text := range strings.Split(strings.ReplaceAll(unchangedWorkload, "NS", ns), "---") {
		s.Put(text)
	}
	podsOf := func() (list corev1.PodList) {
		require.NoError(t, s.Client.List(t.Context(), &list, client.InNamespace(ns)))
		return list
	}
	s.Eventually("the pods and the token exist", func(ctx context.Context) (bool, error) {
		var token corev1.Secret
		err := s.Client.Get(ctx, client.ObjectKey{Namespace: ns, Name: "token"}, &token)
		return len(podsOf().Items) == 4 && len(token.Data["token"]) > 0, err
	})
	s.Must("backup", "create", "b", "--include-namespaces", ns, "--wait")
	for name, args := range map[string][]string{"left": nil, "updated": {"--existing-resource-policy", "update"}} {
		seen := g.Requests()
		require.Empty(t, over(s, name, "b", args...))
		creations := 0
		for request, n := range seen() {
			method, path, _ := strings.Cut(request, " ")
			if !strings.Contains(path, "/namespaces/"+ns+"/") && !strings.Contains(path, "/persistentvolumes") {
				continue
			}
			require.Contains(t, []string{http.MethodPost, "CREATE", http.MethodGet}, method, request)
			if method != http.MethodGet {
				creations += n
				continue
			}
			limit := 1
			if strings.HasSuffix(path, deleted) || strings.HasSuffix(path, "/serviceaccounts/default") {
				limit = 2 // the first one checks whether it exists
			}
			require.LessOrEqual(t, n, limit, request)
		}
		require.GreaterOrEqual(t, creations, 13, "each object is created, and read if it exists")
	}

	// A pod of a set, a Job and a Service that were created again differ only in values that the cluster assigned.
	first := s.Get(s.Object(fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {name: s, namespace: %s}}`, ns)))
	for _, text := range []string{"v1 Service s", "v1 Service np", "batch/v1 Job j", "v1 Pod set-0"} {
		words := strings.Fields(text)
		o := s.Object(fmt.Sprintf(`{apiVersion: %s, kind: %s, metadata: {name: %s, namespace: %s}}`, words[0], words[1],
			words[2], ns))
		before := s.Get(o)
		require.NoError(t, s.Client.Delete(t.Context(), o, client.PropagationPolicy(metav1.DeletePropagationBackground),
			client.GracePeriodSeconds(0)))
		if words[1] != "Pod" {
			for _, text := range strings.Split(strings.ReplaceAll(unchangedWorkload, "NS", ns), "---") {
				if again := s.Object(text); again.GetKind() == words[1] && again.GetName() == words[2] {
					s.Eventually("it is created again", func(ctx context.Context) (bool, error) {
						return true, client.IgnoreAlreadyExists(s.Client.Create(ctx, again))
					})
				}
			}
		}
		s.Eventually("there is another "+text, func(ctx context.Context) (bool, error) {
			err := s.Client.Get(ctx, client.ObjectKeyFromObject(o), o)
			return o.GetUID() != before.GetUID(), err
		})
	}
	require.NotEqual(t, dug(first, "spec", "clusterIP"), dug(s.Get(first), "spec", "clusterIP"))
	require.Empty(t, over(s, "anew", "b"))
	require.Empty(t, over(s, "anew-updated", "b", "--existing-resource-policy", "update"))
}

// dug returns the field of an object at a path as JSON, or "null" if there is none.
func dug(o *unstructured.Unstructured, path ...string) string {
	value, _, _ := unstructured.NestedFieldNoCopy(o.Object, path...)
	text, _ := json.Marshal(value)
	return string(text)
}

// testChanged runs a table of kinds of objects and groups of fields, with either policy.
func testChanged(t *testing.T) {
	s := site.New(t, "cleat.dev/file")
	s.Serve()
	s.Available()
	group := strings.ReplaceAll(s.Namespace, "-", "") + ".example.com"
	crd := s.Put(strings.ReplaceAll(
		`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: drones.GROUP}, spec: {group: GROUP, scope: Namespaced,
		names: {plural: drones, singular: drone, kind: Drone}, versions: [{name: v1, served: true, storage: true,
		subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}}`, "GROUP", group))
	t.Cleanup(func() { _ = s.Client.Delete(context.Background(), crd) })
	ns := s.Put(`{apiVersion: v1, kind: Namespace, metadata: {generateName: studio-, labels: {team: ink, keep: "1"}, annotations: {note: first}}}`)
	const template = `{metadata: {labels: {a: d}}, spec: {restartPolicy: Always, containers: [{name: c, image: "x.invalid/x:1"}]}}`
	rows := map[string]struct {
		object  string // without apiVersion: its namespace is added
		status  string // patch before the backup
		change  string
		anew    string // replaces the object before the restore, instead of change
		field   []string
		refused string // the message of the update instead of restoring the field
	}{
		"ConfigMap, labels": {object: `{apiVersion: v1, kind: ConfigMap, metadata: {name: labels, labels: {l: "1"}}}`,
			change: `{"metadata":{"labels":{"l":"2"}}}`, field: []string{"metadata", "labels", "l"}},
		"ConfigMap, annotations": {object: `{apiVersion: v1, kind: ConfigMap, metadata: {name: annotations, annotations: {l: "1"}}}`, change: `{"metadata":{"annotations":{"l":null}}}`, field: []string{"metadata", "annotations", "l"}},
		"ConfigMap, data": {object: `{apiVersion: v1, kind: ConfigMap, metadata: {name: data}, data: {d: "1"}}`,
			change: `{"data":{"d":"2"}}`, field: []string{"data", "d"}},
		"ConfigMap, more data": {object: `{apiVersion: v1, kind: ConfigMap, metadata: {name: more}, data: {d: "1"}}`,
			change: `{"data":{"e":"2"}}`, field: []string{"data", "e"}},
		"ConfigMap, immutable": {object: `{apiVersion: v1, kind: ConfigMap, metadata: {name: sealed}, data: {d: "1"}}`,
			change: `{"data":{"d":"2"},"immutable":true}`, field: []string{"data", "d"}, refused: "cannot be changed"},
		"Secret, type":                {object: `{apiVersion: v1, kind: Secret, metadata: {name: type}, type: a.example.com/one}`, anew: `{apiVersion: v1, kind: Secret, metadata: {name: type}, type: a.example.com/two}`, field: []string{"type"}, refused: "cannot be changed"},
		"Service, spec":               {object: `{apiVersion: v1, kind: Service, metadata: {name: spec}, spec: {selector: {a: d}, ports: [{port: 80}]}}`, change: `{"spec":{"selector":{"a":"e"}}}`, field: []string{"spec", "selector", "a"}},
		"ServiceAccount":              {object: `{apiVersion: v1, kind: ServiceAccount, metadata: {name: account}, automountServiceAccountToken: false}`, change: `{"automountServiceAccountToken":true}`, field: []string{"automountServiceAccountToken"}},
		"Deployment, spec":            {object: `{apiVersion: apps/v1, kind: Deployment, metadata: {name: spec}, spec: {replicas: 0, selector: {matchLabels: {a: d}}, template: ` + template + `}}`, change: `{"spec":{"replicas":1}}`, field: []string{"spec", "replicas"}},
		"StatefulSet, immutable spec": {object: `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: set}, spec: {replicas: 0, serviceName: one, selector: {matchLabels: {a: d}}, template: ` + template + `}}`, anew: `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: set}, spec: {replicas: 0, serviceName: two, selector: {matchLabels: {a: d}}, template: ` + template + `}}`, field: []string{"spec", "serviceName"}, refused: "cannot be changed"},
		"Job, spec":                   {object: `{apiVersion: batch/v1, kind: Job, metadata: {name: spec}, spec: {parallelism: 0, template: {spec: {restartPolicy: Never, containers: [{name: c, image: "x.invalid/x:1"}]}}}}`, change: `{"spec":{"parallelism":1}}`, field: []string{"spec", "parallelism"}},
		"Job, template":               {object: `{apiVersion: batch/v1, kind: Job, metadata: {name: template}, spec: {parallelism: 0, template: {spec: {restartPolicy: Never, containers: [{name: c, image: "x.invalid/x:1"}]}}}}`, anew: `{apiVersion: batch/v1, kind: Job, metadata: {name: template}, spec: {parallelism: 0, template: {spec: {restartPolicy: Never, containers: [{name: c, image: "x.invalid/x:2"}]}}}}`, field: []string{"spec", "template", "spec", "containers"}, refused: "cannot be changed"},
		"drone, spec":                 {object: `{apiVersion: GROUP/v1, kind: Drone, metadata: {name: spec}, spec: {wings: 2}}`, change: `{"spec":{"wings":3}}`, field: []string{"spec", "wings"}},
		"drone, status":               {object: `{apiVersion: GROUP/v1, kind: Drone, metadata: {name: status}, spec: {wings: 2}}`, status: `{"status":{"height":10}}`, change: `{"status":{"height":20,"more":1}}`, field: []string{"status"}},
		"drone, spec and status":      {object: `{apiVersion: GROUP/v1, kind: Drone, metadata: {name: both}, spec: {wings: 2}}`, status: `{"status":{"height":10}}`, change: `{"spec":{"wings":3}}`, field: []string{"spec", "wings"}},
	}
	create := func(text string) *unstructured.Unstructured {
		o := s.Object(strings.ReplaceAll(text, "GROUP", group))
		o.SetNamespace(ns.GetName())
		s.Eventually("the object is created", func(ctx context.Context) (bool, error) {
			return true, client.IgnoreAlreadyExists(s.Client.Create(ctx, o))
		})
		return o
	}
	objects := map[string]*unstructured.Unstructured{}
	for name, row := range rows {
		objects[name] = create(row.object)
		if row.status != "" {
			s.Change(objects[name], row.status)
		}
	}
	s.Must("backup", "create", "b", "--include-namespaces", ns.GetName(), "--wait")
	backup, changed := map[string]string{}, map[string]string{}
	for name, row := range rows {
		o := objects[name]
		backup[name] = dug(s.Get(o), row.field...)
		if row.anew != "" {
			require.NoError(t, s.Client.Delete(t.Context(), o, client.PropagationPolicy(metav1.DeletePropagationBackground)))
			s.Eventually("it is gone", func(ctx context.Context) (bool, error) {
				err := s.Client.Get(ctx, client.ObjectKeyFromObject(o), o.DeepCopy())
				return client.IgnoreNotFound(err) == nil && err != nil, client.IgnoreNotFound(err)
			})
			create(row.anew)
		} else {
			s.Change(o, row.change)
		}
		if name == "drone, spec and status" {
			s.Change(o, `{"status":{"height":20}}`)
		}
		changed[name] = dug(s.Get(o), row.field...)
		require.NotEqual(t, backup[name], changed[name], name)
	}
	s.Change(ns, `{"metadata":{"labels":{"team":"drift","keep":null,"other":"x"},"annotations":{"note":"drift"}}}`)

	warningOf := func(warnings string, o *unstructured.Unstructured) string {
		for _, line := range strings.Split(warnings, "\n") {
			if strings.Contains(line, "/"+ns.GetName()+"/"+o.GetName()+" ") &&
				strings.Contains(strings.ToLower(line), strings.ToLower(o.GetKind())) {
				return line
			}
		}
		return ""
	}
	status := []string{"--status-include-resources", "drones." + group}
	warnings := over(s, "left", "b", status...)
	for name, row := range rows {
		require.Equal(t, changed[name], dug(s.Get(objects[name]), row.field...), name)
		require.Contains(t, warningOf(warnings, objects[name]), "differs from the backup in "+row.field[0], name)
	}
	require.Contains(t, warnings, "namespaces/"+ns.GetName()+
		" exists in the cluster and differs from the backup in metadata.annotations.note, metadata.labels.keep, "+
		"metadata.labels.team")
	require.Equal(t, `"drift"`, dug(s.Get(ns), "metadata", "labels", "team"))

	update := append([]string{"--existing-resource-policy", "update"}, status...)
	out := s.Must(append([]string{"restore", "create", "dry", "--from-backup", "b", "--dry-run"}, update...)...)
	require.Regexp(t, `(?m)^namespaces +0 +1 +0 `, out)
	require.Contains(t, out, "jobs.batch "+ns.GetName()+"/template: refused: ", out)
	require.Equal(t, `"drift"`, dug(s.Get(ns), "metadata", "labels", "team"))

	warnings = over(s, "updated", "b", update...)
	for name, row := range rows {
		now, said := s.Get(objects[name]), warningOf(warnings, objects[name])
		if row.refused != "" {
			require.Equal(t, changed[name], dug(now, row.field...), name)
			require.Contains(t, said, row.refused, name)
			require.Contains(t, said, strings.Join(row.field, "."), name)
			continue
		}
		require.Equal(t, backup[name], dug(now, row.field...), "%s\n%s", name, warnings)
		require.Empty(t, said, name)
	}
	require.Equal(t, `{"height":10}`, dug(s.Get(objects["drone, spec and status"]), "status"))
	now := s.Get(ns)
	require.Equal(t, map[string]string{"note": "first"}, now.GetAnnotations())
	require.Equal(t, map[string]string{"team": "ink", "keep": "1", "other": "x",
		"kubernetes.io/metadata.name": ns.GetName()}, now.GetLabels())
	require.NotContains(t, warnings, "namespaces/"+ns.GetName()+" ")
}
