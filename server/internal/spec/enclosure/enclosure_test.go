package enclosure

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"
)

func rules() Rules {
	return Rules{Restore: "u", Namespaces: []string{"in", "in-2"},
		CustomResources: []string{"widgets.example.com", "*.example.org"}}
}

const (
	claims  = "persistentvolumeclaims"
	content = "volumesnapshotcontents.snapshot.storage.k8s.io"
)

// own returns a text with the names that the restore of the rehearsal gives.
func own(text string) string {
	return strings.NewReplacer("CLASS", ClassPrefix("u"), "VOLUME", VolumePrefix("u")).Replace(text)
}

func TestDecisions(t *testing.T) {
	t.Parallel()
	const pod = `{"spec":{"containers":[{"name":"c"}]}}`
	tests := []struct {
		name, resource, namespace, raw string
		snapshot, first                bool
		want                           Treatment
		changes                        []string
		reason                         string
		changed                        string // JSON; empty for unchanged
	}{
		{name: "a config map", resource: "configmaps", namespace: "in", raw: `{"data":{"a":"b","A":"c"}}`},
		{name: "outside", resource: "configmaps", namespace: "out", raw: `{}`, want: LeaveOut, reason: "namespace out is not one"},
		{name: "cluster-scoped", resource: "clusterroles.rbac.authorization.k8s.io", raw: `{}`, want: Try, reason: "cluster-scoped"},
		{name: "a config map without a namespace", resource: "configmaps", raw: `{}`, want: Try, reason: "cluster-scoped"},
		{name: "a webhook", resource: "validatingwebhookconfigurations.admissionregistration.k8s.io", raw: `{}`, want: Try,
			reason: "cluster-scoped"},
		{name: "a definition", resource: "customresourcedefinitions.apiextensions.k8s.io", raw: `{}`, want: Try,
			reason: "cluster-scoped"},
		{name: "a volume", resource: "persistentvolumes", raw: `{}`, want: LeaveOut, reason: "gets a new volume"},
		{name: "a volume with a snapshot", resource: "persistentvolumes", snapshot: true, raw: `{"metadata":{"name":"VOLUME1",
			"annotations":{"pv.kubernetes.io/provisioned-by":"d"}},"spec":{"storageClassName":"fast","nfs":{"server":"s"},"csi":{
			"driver":"d","volumeHandle":"h","nodeStageSecretRef":{"name":"s","namespace":"kube-system"}},"claimRef":{"namespace":"in",
			"name":"c","uid":"x"}}}`, changes: []string{"without spec.claimRef.uid", "without spec.csi.nodeStageSecretRef",
			"without spec.nfs", "without annotation pv.kubernetes.io/provisioned-by"},
			changed: `{"metadata":{"name":"VOLUME1","annotations":{}},"spec":{"storageClassName":"CLASS.fast","csi":{"driver":"d",
			"volumeHandle":"h"},"claimRef":{"namespace":"in","name":"c"},"persistentVolumeReclaimPolicy":"Delete"}}`},
		{name: "a volume for anybody", resource: "persistentvolumes", snapshot: true, first: true,
			raw: `{"spec":{"claimRef":{"namespace":"in"}}}`, want: LeaveOut, reason: "any could get it"},
		{name: "a volume for a claim outside", resource: "persistentvolumes", snapshot: true,
			raw:  `{"metadata":{"name":"VOLUME1"},"spec":{"claimRef":{"namespace":"out","name":"c"}}}`,
			want: LeaveOut, reason: "outside of the rehearsal"},
		{name: "a volume that is not new", resource: "persistentvolumes", snapshot: true,
			raw:  `{"metadata":{"name":"pv-1"},"spec":{"claimRef":{"namespace":"in","name":"c"}}}`,
			want: LeaveOut, reason: "not a volume that was made"},
		{name: "a content before the actions", resource: content, raw: `{}`, first: true},
		{name: "a content that would delete its snapshot", resource: content,
			raw: `{"metadata":{"name":"n","labels":{"velero.io/restore-uid":"u"}},"spec":{"deletionPolicy":"Delete","Deletionpolicy":"Retain",
			"volumeSnapshotRef":{"namespace":"in","name":"n"}}}`, want: Try, reason: "cluster-scoped"},
		{name: "a content of another restore", resource: content,
			raw: `{"metadata":{"name":"n","labels":{"velero.io/restore-uid":"v"}},"spec":{"deletionPolicy":"Retain",
			"volumeSnapshotRef":{"namespace":"in","name":"n"}}}`, want: Try, reason: "cluster-scoped"},
		{name: "a content for a snapshot outside", resource: content,
			raw: `{"metadata":{"name":"n","labels":{"velero.io/restore-uid":"u"}},"spec":{"deletionPolicy":"Retain",
			"volumeSnapshotRef":{"namespace":"out","name":"n"}}}`, want: Try, reason: "cluster-scoped"},
		{name: "a content", resource: content,
			raw: `{"metadata":{"name":"n","labels":{"velero.io/restore-uid":"u"}},"spec":{"deletionPolicy":"Retain",
			"volumeSnapshotRef":{"namespace":"in","name":"n"},"source":{"snapshotHandle":"h"}}}`},
		{name: "a snapshot", resource: "volumesnapshots.snapshot.storage.k8s.io", namespace: "in",
			raw: `{"metadata":{"name":"n","labels":{"velero.io/restore-uid":"u"}},"spec":{"source":{"volumeSnapshotContentName":"n"}}}`},
		{name: "a snapshot of the archive", resource: "volumesnapshots.snapshot.storage.k8s.io", namespace: "in",
			raw: `{"metadata":{"name":"n"},"spec":{"source":{"volumeSnapshotContentName":"n"}}}`, want: Try, reason: "not a snapshot"},
		{name: "an ingress", resource: "ingresses.networking.k8s.io", namespace: "in", raw: `{}`, want: Try, reason: "let traffic in"},
		{name: "a route", resource: "httproutes.gateway.networking.k8s.io", namespace: "in", raw: `{}`, want: Try,
			reason: "let traffic in"},
		{name: "a policy", resource: "networkpolicies.networking.k8s.io", namespace: "in", raw: `{}`, want: Try, reason: "could open"},
		{name: "endpoints", resource: "endpoints", namespace: "in", raw: `{}`, want: Try, reason: "may be outside"},
		{name: "a slice", resource: "endpointslices.discovery.k8s.io", namespace: "in", raw: `{}`, want: Try, reason: "may be outside"},
		{name: "a revision", resource: "controllerrevisions.apps", namespace: "in", raw: `{}`, want: Try, reason: "its controller makes it"},
		{name: "a custom resource", resource: "buckets.cloud.example", namespace: "in", raw: `{}`, want: Try,
			reason: "restores.rehearsals.customResources does not have buckets.cloud.example"},
		{name: "an allowed custom resource", resource: "widgets.example.com", namespace: "in", raw: `{"metadata":{"name":"n"},"any":1}`},
		{name: "finalizers and owners", resource: "widgets.example.com", namespace: "in", raw: `{"metadata":{"finalizers":["f"],
			"ownerReferences":[{"blockOwnerDeletion":true}],"managedFields":[{"manager":"m"}]}}`, changed: `{"metadata":{}}`,
			changes: []string{"without metadata.finalizers", "without metadata.ownerReferences"}},
		{name: "another one of its group", resource: "gadgets.example.com", namespace: "in", raw: `{}`, want: Try, reason: "gadgets"},
		{name: "one of an allowed group", resource: "gadgets.example.org", namespace: "in", raw: `{}`},
		{name: "a pod", resource: "pods", namespace: "in", raw: pod},
		{name: "a pod of the host", resource: "pods", namespace: "in", changes: []string{"without spec.containers.ports.hostPort",
			"without spec.hostNetwork", "without spec.hostPID", "without spec.nodeName", "without spec.priority",
			"without spec.priorityClassName", "with the DNS of the cluster only"},
			raw: `{"spec":{"nodeName":"n","hostNetwork":true,"hostPID":true,"hostIPC":false,"priorityClassName":"high","priority":7,
				"dnsPolicy":"ClusterFirstWithHostNet","containers":[{"name":"c","ports":[{"containerPort":1,"hostPort":80}]}]}}`,
			changed: `{"spec":{"dnsPolicy":"ClusterFirst","containers":[{"name":"c","ports":[{"containerPort":1}]}]}}`},
		{name: "a pod with a directory of the node", resource: "pods", namespace: "in", want: LeaveOut, reason: "hostPath",
			raw: `{"spec":{"volumes":[{"name":"v","hostPath":{"path":"/"}}]}}`},
		{name: "a deployment with a share", resource: "deployments.apps", namespace: "in", want: LeaveOut, reason: "nfs",
			raw: `{"spec":{"template":{"spec":{"volumes":[{"name":"v","nfs":{"server":"s"}}]}}}}`},
		{name: "a pod with volumes", resource: "pods", namespace: "in",
			raw: `{"spec":{"volumes":[{"name":"a","emptyDir":{}},{"name":"b","persistentVolumeClaim":{"claimName":"b"}}]}}`},
		{name: "a pod with a claim of its own", resource: "pods", namespace: "in", changes: []string{"with a new volume"},
			raw:     `{"spec":{"volumes":[{"name":"a","ephemeral":{"volumeClaimTemplate":{"spec":{"volumeName":"pv-1"}}}}]}}`,
			changed: `{"spec":{"volumes":[{"name":"a","ephemeral":{"volumeClaimTemplate":{"spec":{"storageClassName":"CLASS"}}}}]}}`},
		{name: "a stateful set", resource: "statefulsets.apps", namespace: "in", changes: []string{"without its selector of volumes"},
			raw:     `{"spec":{"volumeClaimTemplates":[{"spec":{"storageClassName":"fast","selector":{"matchLabels":{"a":"b"}}}}]}}`,
			changed: `{"spec":{"volumeClaimTemplates":[{"spec":{"storageClassName":"CLASS.fast"}}]}}`},
		{name: "privileged", resource: "daemonsets.apps", namespace: "in", want: LeaveOut, reason: "privileged",
			raw: `{"spec":{"template":{"spec":{"initContainers":[{"name":"c","securityContext":{"privileged":true}}]}}}}`},
		{name: "a device", resource: "pods", namespace: "in", want: LeaveOut, reason: "devices",
			raw: `{"spec":{"resourceClaims":[{"name":"gpu"}]}}`},
		{name: "a cron job", resource: "cronjobs.batch", namespace: "in", raw: `{"spec":{"schedule":"@daily"}}`,
			changes: []string{"suspended"}, changed: `{"spec":{"schedule":"@daily","suspend":true}}`},
		{name: "a suspended cron job", resource: "cronjobs.batch", namespace: "in", raw: `{"spec":{"suspend":true}}`},
		{name: "a service", resource: "services", namespace: "in", raw: `{"spec":{"clusterIP":"None"}}`},
		{name: "a name outside", resource: "services", namespace: "in", raw: `{"spec":{"type":"ExternalName","externalName":"db.prod"}}`,
			want: LeaveOut, reason: "outside"},
		{name: "a load balancer", resource: "services", namespace: "in", changes: []string{"without spec.externalIPs",
			"without spec.externalTrafficPolicy", "without spec.healthCheckNodePort", "without spec.loadBalancerIP",
			"without spec.ports.nodePort", "ClusterIP instead of LoadBalancer",
			"without annotation external-dns.alpha.kubernetes.io/hostname"},
			raw: `{"metadata":{"annotations":{"external-dns.alpha.kubernetes.io/hostname":"shop.example"}},"spec":{"type":"LoadBalancer",
				"clusterIP":"10.0.0.1","clusterIPs":["10.0.0.1"],"externalIPs":["192.0.2.1"],"loadBalancerIP":"192.0.2.2",
				"externalTrafficPolicy":"Local","healthCheckNodePort":30001,"ports":[{"port":80,"nodePort":30000}]}}`,
			changed: `{"metadata":{"annotations":{}},"spec":{"type":"ClusterIP","ports":[{"port":80}]}}`},
		{name: "a claim", resource: claims, namespace: "in", changes: []string{"without spec.dataSourceRef.namespace",
			"with a new volume", "without its selector of volumes", "without its dataSource, which is not a restored snapshot"},
			raw: `{"metadata":{"annotations":{"volume.beta.kubernetes.io/storage-class":"fast"}},"spec":{"volumeName":"pv-1",
				"selector":{"matchLabels":{"a":"b"}},"dataSource":{"kind":"PersistentVolumeClaim","name":"c"},"dataSourceRef":{
				"apiGroup":"snapshot.storage.k8s.io","kind":"VolumeSnapshot","name":"s","namespace":"prod"}}}`,
			changed: `{"metadata":{"annotations":{}},"spec":{"storageClassName":"CLASS.fast","dataSourceRef":{
				"apiGroup":"snapshot.storage.k8s.io","kind":"VolumeSnapshot","name":"s"}}}`},
		{name: "a claim of a restored volume", resource: claims, namespace: "in", raw: `{"spec":{"volumeName":"VOLUME1","storageClassName":""}}`,
			changed: `{"spec":{"volumeName":"VOLUME1","storageClassName":"CLASS.no.class"}}`},
		{name: "a claim to which data is moved", resource: claims, namespace: "in", raw: `{"spec":{"storageClassName":"CLASS","selector":{
			"matchLabels":{"velero.io/dynamic-pv-restore":"in.c.x"}}}}`},
		{name: "a claim to which data of others is moved", resource: claims, namespace: "in", changes: []string{
			"without its selector of volumes"}, raw: `{"spec":{"storageClassName":"CLASS","selector":{
			"matchLabels":{"velero.io/dynamic-pv-restore":"out.c.x"}}}}`, changed: `{"spec":{"storageClassName":"CLASS"}}`},
		{name: "a role binding", resource: "rolebindings.rbac.authorization.k8s.io", namespace: "in",
			raw: `{"roleRef":{"kind":"Role","name":"r"},"subjects":[{"kind":"ServiceAccount","namespace":"in-2","name":"a"},{
				"kind":"ServiceAccount","namespace":"out","name":"a"},{"kind":"User","name":"u"}]}`,
			changes: []string{"without the subjects outside of the rehearsal"},
			changed: `{"roleRef":{"kind":"Role","name":"r"},"subjects":[{"kind":"ServiceAccount","namespace":"in-2","name":"a"}]}`},
		{name: "rights of the cluster", resource: "rolebindings.rbac.authorization.k8s.io", namespace: "in",
			raw: `{"roleRef":{"kind":"ClusterRole","name":"admin"}}`, want: Try, reason: "rights of the cluster"},
		{name: "a role", resource: "roles.rbac.authorization.k8s.io", namespace: "in", changes: []string{"without rights to write"},
			raw:     `{"rules":[{"verbs":["get","delete"],"resources":["pods"]},{"verbs":["*"],"resources":["*"]}]}`,
			changed: `{"rules":[{"verbs":["get"],"resources":["pods"]}]}`},
		{name: "a field of later", resource: "pods", namespace: "in", raw: `{"spec":{"hostAnything":{"a":1},"Volumes":[{}]}}`,
			changes: []string{"without spec.Volumes", "without spec.hostAnything"}, changed: `{"spec":{}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := rules().Decide(Item{Resource: schema.ParseGroupResource(tt.resource), Namespace: tt.namespace,
				Raw: []byte(own(tt.raw)), HasSnapshot: tt.snapshot, Last: !tt.first})
			require.NoError(t, err)
			require.Equal(t, tt.want, got.Treatment, got.Reason)
			require.Contains(t, got.Reason, tt.reason)
			require.Equal(t, tt.reason == "", got.Reason == "")
			require.Equal(t, tt.changes, got.Changes)
			switch {
			case tt.want != Write || tt.first:
				require.Nil(t, got.Raw)
			case tt.changed == "":
				require.JSONEq(t, own(tt.raw), string(got.Raw))
			default:
				require.JSONEq(t, own(tt.changed), string(got.Raw))
			}
		})
	}
}

// TestNamesOfClasses shows that the copies of all classes have names of their own, and names that are valid.
func TestNamesOfClasses(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 253)
	seen := map[string]bool{}
	for _, class := range []string{"", "a", "b", long, long[:252] + "b", noClass + "x"} {
		for _, restore := range []string{"u", "v"} {
			name := ClassName(restore, class)
			require.False(t, seen[name], name)
			require.LessOrEqual(t, len(name), 253)
			seen[name] = true
		}
	}
}

func TestItemsThatCannotBeUnderstoodAreErrors(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{``, `[]`, `null`, `{"spec":`, `{} {}`, `{"spec":{},"spec":{"volumes":[]}}`, `{"spec":[{}],"spec":{}}`,
		`{"spec":{"volumes":[{"emptyDir":{},"emptyDir":{}}]}}`, `{"spec":"x"}`, `{"spec":{"volumes":{}}}`, `{"spec":{"containers":[[]]}}`,
		`{"spec":{"volumes":[null],"containers":[null]}}`, `{"metadata":[]}`, `{"spec":{"priority":1e999}}`} {
		_, err := rules().Decide(Item{Resource: schema.GroupResource{Resource: "pods"}, Namespace: "in", Raw: []byte(raw)})
		require.ErrorContains(t, err, "decide whether pods can be rehearsed", raw)
	}
}

// FuzzDecide decides about any JSON. What is written is not changed by a second decision, has nothing that the API
// server reads in another way, and no field that is not listed.
func FuzzDecide(f *testing.F) {
	for _, resource := range []string{"pods", "deployments.apps", "cronjobs.batch", "services", claims,
		"rolebindings.rbac.authorization.k8s.io", content, "statefulsets.apps"} {
		f.Add(resource, []byte(`{"metadata":{"annotations":{"a":"b"}},"subjects":[1,{}],"spec":{"type":"NodePort","ports":[{"nodePort":1}],
			"hostNetwork":true,"containers":[{"ports":[{"hostPort":1}]}],"template":{"spec":{"volumes":[{"hostPath":{}}]}}}}`))
		f.Add(resource, []byte(`{"spec":{"volumes":{},"containers":[[]],"ports":"x","jobTemplate":[]}}`))
		f.Add(resource, []byte(`{"spec":{"selector":{},"SPEC":1,"template":{"spec":{"hostPID":true}}},"spec":{}}`))
	}
	f.Fuzz(func(t *testing.T, resource string, raw []byte) {
		item := Item{Resource: schema.ParseGroupResource(resource), Namespace: "in", Raw: raw, Last: true}
		first, err := rules().Decide(item)
		if err != nil || first.Raw == nil {
			return
		}
		var sent map[string]any
		twice, err := kjson.UnmarshalStrict(raw, &sent, kjson.DisallowDuplicateFields)
		require.NoError(t, err)
		require.Empty(t, twice)
		twice, err = kjson.UnmarshalStrict(first.Raw, &sent, kjson.DisallowDuplicateFields)
		require.NoError(t, err)
		require.Empty(t, twice)
		item.Raw = first.Raw
		again, err := rules().Decide(item)
		require.NoError(t, err)
		require.Empty(t, again.Changes)
		require.Equal(t, Write, again.Treatment)
		require.JSONEq(t, string(first.Raw), string(again.Raw))
		require.True(t, json.Valid(again.Raw))
	})
}
