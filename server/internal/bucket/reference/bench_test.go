package reference

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cleat-dev/cleat/server/internal/kube/item"
)

// pod returns a pod as an API server has it: with its managed fields and its status.
func pod(t testing.TB) []byte {
	t.Helper()
	fields := &metav1.FieldsV1{Raw: []byte(`{"f:metadata":{"f:labels":{".":{},"f:app":{},"f:pod-template-hash":{}},` +
		`"f:ownerReferences":{".":{},"k:{\"uid\":\"u\"}":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{".":{},` +
		`"f:env":{".":{},"k:{\"name\":\"A\"}":{".":{},"f:name":{},"f:value":{}}},"f:image":{},"f:imagePullPolicy":{},"f:name":{},` +
		`"f:ports":{".":{},"k:{\"containerPort\":8080}":{".":{},"f:containerPort":{},"f:protocol":{}}},"f:resources":{}}},` +
		`"f:dnsPolicy":{},"f:restartPolicy":{},"f:schedulerName":{},"f:securityContext":{}}}`)}
	p := corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "web-7d9c5b8f6-x2x4z", Namespace: "shop", UID: "5d5b6c7e-0000-4000-8000-000000000002",
			ResourceVersion: "12345",
			Labels:          map[string]string{"app": "web", "pod-template-hash": "7d9c5b8f6"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kube-controller-manager", FieldsV1: fields},
				{Manager: "kubelet", FieldsV1: fields}},
		},
		Spec: corev1.PodSpec{ServiceAccountName: "web", Volumes: []corev1.Volume{
			{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{
				ClaimName: "data",
			}}},
			{Name: "settings", VolumeSource: corev1.VolumeSource{
				ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}},
			}},
		}},
	}
	for c := range 2 {
		container := corev1.Container{Name: fmt.Sprint("c", c), Image: "registry.example.io/web:1.2.3",
			TerminationMessagePath: "/dev/termination-log"}
		for e := range 5 {
			container.Env = append(container.Env, corev1.EnvVar{Name: fmt.Sprint("VARIABLE_", e),
				Value: "value of the variable"})
		}
		p.Spec.Containers = append(p.Spec.Containers, container)
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: container.Name, Image: container.Image,
			ImageID: "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
		})
	}
	raw, err := json.Marshal(p)
	require.NoError(t, err)
	return raw
}

// BenchmarkPod compares reading the references of a pod with reading its metadata, which a backup does anyway.
func BenchmarkPod(b *testing.B) {
	raw := pod(b)
	table := BuiltIn()
	b.Run("metadata", func(b *testing.B) {
		b.SetBytes(int64(len(raw)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := item.ParseMeta(raw); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, resource := range []string{"pods", "configmaps"} {
		b.Run("references of "+resource, func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := table.Of("", resource, "shop", raw); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
