package enclosure

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func rules() Rules {
	return Rules{Namespaces: []string{"in", "in-2"}, CustomResources: []string{"widgets.example.com", "*.example.org"}}
}

func TestDecisions(t *testing.T) {
	t.Parallel()
	const pod = `{"spec":{"containers":[{"name":"c"}]}}`
	tests := []struct {
		name, resource, namespace, raw string
		snapshot, last                 bool
		want                           Treatment
		changes                        []string
		reason                         string
		changed                        string // JSON; empty for unchanged
	}{
		{name: "a config map", resource: "configmaps", namespace: "in", raw: `{}`},
		{name: "outside", resource: "configmaps", namespace: "out", raw: `{}`, want: LeaveOut, reason: "namespace out is not one"},
		{name: "cluster-scoped", resource: "clusterroles.rbac.authorization.k8s.io", raw: `{}`, want: Try, reason: "cluster-scoped"},
		{name: "a webhook", resource: "validatingwebhookconfigurations.admissionregistration.k8s.io", raw: `{}`, want: Try,
			reason: "cluster-scoped"},
		{name: "a definition", resource: "customresourcedefinitions.apiextensions.k8s.io", raw: `{}`, want: Try,
			reason: "cluster-scoped"},
		{name: "a volume", resource: "persistentvolumes", raw: `{}`, want: LeaveOut, reason: "gets a new volume"},
		{name: "a volume with a snapshot", resource: "persistentvolumes", raw: `{}`, snapshot: true},
		{name: "a content before the actions", resource: "volumesnapshotcontents.snapshot.storage.k8s.io", raw: `{}`},
		{name: "a content that would delete its snapshot", resource: "volumesnapshotcontents.snapshot.storage.k8s.io", last: true,
			raw: `{"metadata":{"labels":{"velero.io/restore-uid":"u"}},"spec":{"deletionPolicy":"Delete"}}`, want: Try,
			reason: "cluster-scoped"},
		{name: "a content of another", resource: "volumesnapshotcontents.snapshot.storage.k8s.io", last: true,
			raw: `{"spec":{"deletionPolicy":"Retain"}}`, want: Try, reason: "cluster-scoped"},
		{name: "a content", resource: "volumesnapshotcontents.snapshot.storage.k8s.io", last: true,
			raw: `{"metadata":{"labels":{"velero.io/restore-uid":"u"}},"spec":{"deletionPolicy":"Retain"}}`},
		{name: "an ingress", resource: "ingresses.networking.k8s.io", namespace: "in", raw: `{}`, want: Try, reason: "let traffic in"},
		{name: "a route", resource: "httproutes.gateway.networking.k8s.io", namespace: "in", raw: `{}`, want: Try,
			reason: "let traffic in"},
		{name: "a policy", resource: "networkpolicies.networking.k8s.io", namespace: "in", raw: `{}`, want: Try, reason: "could open"},
		{name: "a custom resource", resource: "buckets.cloud.example", namespace: "in", raw: `{}`, want: Try,
			reason: "restores.rehearsals.customResources does not have buckets.cloud.example"},
		{name: "an allowed custom resource", resource: "widgets.example.com", namespace: "in", raw: `{}`},
		{name: "another one of its group", resource: "gadgets.example.com", namespace: "in", raw: `{}`, want: Try, reason: "gadgets"},
		{name: "one of an allowed group", resource: "gadgets.example.org", namespace: "in", raw: `{}`},
		{name: "a pod", resource: "pods", namespace: "in", raw: pod},
		{name: "a pod of the host", resource: "pods", namespace: "in", changes: []string{"without host ports",
			"without hostNetwork, hostPID", "without its priority over other pods", "on any node"},
			raw: `{"spec":{"nodeName":"n","hostNetwork":true,"hostPID":true,"hostIPC":false,"priorityClassName":"high","priority":7,
				"dnsPolicy":"ClusterFirstWithHostNet","containers":[{"name":"c","ports":[{"containerPort":1,"hostPort":80}]}]}}`,
			changed: `{"spec":{"dnsPolicy":"ClusterFirst","containers":[{"name":"c","ports":[{"containerPort":1}]}]}}`},
		{name: "a pod with a directory of the node", resource: "pods", namespace: "in", want: LeaveOut, reason: "hostPath",
			raw: `{"spec":{"volumes":[{"name":"v","hostPath":{"path":"/"}}]}}`},
		{name: "a deployment with a share", resource: "deployments.apps", namespace: "in", want: LeaveOut, reason: "nfs",
			raw: `{"spec":{"template":{"spec":{"volumes":[{"name":"v","nfs":{"server":"s"}}]}}}}`},
		{name: "a pod with volumes", resource: "pods", namespace: "in",
			raw: `{"spec":{"volumes":[{"name":"a","emptyDir":{}},{"name":"b","persistentVolumeClaim":{"claimName":"b"}}]}}`},
		{name: "privileged", resource: "daemonsets.apps", namespace: "in", want: LeaveOut, reason: "privileged",
			raw: `{"spec":{"template":{"spec":{"initContainers":[{"name":"c","securityContext":{"privileged":true}}]}}}}`},
		{name: "a cron job", resource: "cronjobs.batch", namespace: "in", raw: `{"spec":{"schedule":"@daily"}}`,
			changes: []string{"suspended"}, changed: `{"spec":{"schedule":"@daily","suspend":true}}`},
		{name: "a suspended cron job", resource: "cronjobs.batch", namespace: "in", raw: `{"spec":{"suspend":true}}`},
		{name: "a service", resource: "services", namespace: "in", raw: `{"spec":{"clusterIP":"None"}}`},
		{name: "a load balancer", resource: "services", namespace: "in", changes: []string{"without names in the DNS",
			"ClusterIP instead of LoadBalancer", "without node ports", "without external IPs"},
			raw: `{"metadata":{"annotations":{"external-dns.alpha.kubernetes.io/hostname":"shop.example"}},"spec":{"type":"LoadBalancer",
				"clusterIP":"10.0.0.1","clusterIPs":["10.0.0.1"],"externalIPs":["192.0.2.1"],"loadBalancerIP":"192.0.2.2",
				"externalTrafficPolicy":"Local","healthCheckNodePort":30001,"ports":[{"port":80,"nodePort":30000}]}}`,
			changed: `{"metadata":{"annotations":{}},"spec":{"type":"ClusterIP","ports":[{"port":80}]}}`},
		{name: "a claim with a selector", resource: "persistentvolumeclaims", namespace: "in", raw: `{"spec":{"selector":{"matchLabels":{
			"a":"b"}}}}`, changes: []string{"without its selector of volumes"}, changed: `{"spec":{}}`},
		{name: "a role binding", resource: "rolebindings.rbac.authorization.k8s.io", namespace: "in",
			raw: `{"subjects":[{"kind":"ServiceAccount","namespace":"in-2","name":"a"},{"kind":"ServiceAccount","namespace":"out","name":"a"},
				{"kind":"User","name":"u"}]}`, changes: []string{"without the subjects outside of the rehearsal"},
			changed: `{"subjects":[{"kind":"ServiceAccount","namespace":"in-2","name":"a"}]}`},
		{name: "a large number stays", resource: "cronjobs.batch", namespace: "in", raw: `{"spec":{"n":123456789012345678901234567890}}`,
			changes: []string{"suspended"}, changed: `{"spec":{"n":123456789012345678901234567890,"suspend":true}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := rules().Decide(Item{Resource: schema.ParseGroupResource(tt.resource), Namespace: tt.namespace,
				Raw: []byte(tt.raw), HasSnapshot: tt.snapshot, Last: tt.last})
			require.NoError(t, err)
			require.Equal(t, tt.want, got.Treatment)
			require.Contains(t, got.Reason, tt.reason)
			require.Equal(t, tt.reason == "", got.Reason == "")
			require.Equal(t, tt.changes, got.Changes)
			if tt.changed == "" {
				require.Nil(t, got.Raw)
				return
			}
			require.JSONEq(t, tt.changed, string(got.Raw))
		})
	}
}

func TestItemsThatCannotBeUnderstoodAreErrors(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{``, `[]`, `null`, `{"spec":`, `{} {}`} {
		_, err := rules().Decide(Item{Resource: schema.GroupResource{Resource: "pods"}, Namespace: "in", Raw: []byte(raw)})
		require.ErrorContains(t, err, "decide whether pods can be rehearsed", raw)
	}
}

// FuzzDecide decides about any JSON. What is written is not changed by a second decision, and has nothing of the host.
func FuzzDecide(f *testing.F) {
	for _, resource := range []string{"pods", "deployments.apps", "cronjobs.batch", "services", "persistentvolumeclaims",
		"rolebindings.rbac.authorization.k8s.io", "volumesnapshotcontents.snapshot.storage.k8s.io"} {
		f.Add(resource, []byte(`{"metadata":{"annotations":{"a":"b"}},"subjects":[1,{}],"spec":{"type":"NodePort","ports":[{"nodePort":1}],
			"hostNetwork":true,"containers":[{"ports":[{"hostPort":1}]}],"template":{"spec":{"volumes":[{"hostPath":{}}]}}}}`))
		f.Add(resource, []byte(`{"spec":{"volumes":{},"containers":[[]],"ports":"x","jobTemplate":[]}}`))
	}
	f.Fuzz(func(t *testing.T, resource string, raw []byte) {
		item := Item{Resource: schema.ParseGroupResource(resource), Namespace: "in", Raw: raw, Last: true}
		first, err := rules().Decide(item)
		if err != nil || first.Raw == nil {
			return
		}
		require.True(t, json.Valid(first.Raw))
		require.NotEmpty(t, first.Changes)
		item.Raw = first.Raw
		again, err := rules().Decide(item)
		require.NoError(t, err)
		require.Empty(t, again.Changes)
		require.Equal(t, Write, again.Treatment)
	})
}
