// Package podspec has the parts of pods that users write in ConfigMaps: resources of a container, and the nodes on
// which the pod may run. It imports the types of Kubernetes only.
package podspec

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Resources are requests and limits as quantities. Empty ones are not set.
type Resources struct {
	CPURequest              string `json:"cpuRequest"`
	CPULimit                string `json:"cpuLimit"`
	MemoryRequest           string `json:"memoryRequest"`
	MemoryLimit             string `json:"memoryLimit"`
	EphemeralStorageRequest string `json:"ephemeralStorageRequest"`
	EphemeralStorageLimit   string `json:"ephemeralStorageLimit"`
}

// Requirements returns the resources in the form of a pod. Its error names the key podResources.
func (r Resources) Requirements() (corev1.ResourceRequirements, error) {
	requests, limits := corev1.ResourceList{}, corev1.ResourceList{}
	for _, one := range []struct {
		key, value string
		list       corev1.ResourceList
		name       corev1.ResourceName
	}{
		{"cpuRequest", r.CPURequest, requests, corev1.ResourceCPU},
		{"cpuLimit", r.CPULimit, limits, corev1.ResourceCPU},
		{"memoryRequest", r.MemoryRequest, requests, corev1.ResourceMemory},
		{"memoryLimit", r.MemoryLimit, limits, corev1.ResourceMemory},
		{"ephemeralStorageRequest", r.EphemeralStorageRequest, requests, corev1.ResourceEphemeralStorage},
		{"ephemeralStorageLimit", r.EphemeralStorageLimit, limits, corev1.ResourceEphemeralStorage},
	} {
		if one.value == "" {
			continue
		}
		quantity, err := resource.ParseQuantity(one.value)
		if err != nil {
			return corev1.ResourceRequirements{}, fmt.Errorf("podResources.%s is %q, want a quantity such as 500m or 1Gi",
				one.key, one.value)
		}
		if !quantity.IsZero() { // for Velero, 0 is no request and no limit
			one.list[one.name] = quantity
		}
	}
	for name, request := range requests {
		if limit, limited := limits[name]; limited && request.Cmp(limit) > 0 {
			return corev1.ResourceRequirements{}, fmt.Errorf("podResources: the request of %s is %s, more than the limit %s",
				name, request.String(), limit.String())
		}
	}
	return corev1.ResourceRequirements{Requests: requests, Limits: limits}, nil
}

// Tolerations returns the tolerations of a pod, without those that Kubernetes adds to pods by itself.
func Tolerations(of *corev1.Pod) []corev1.Toleration {
	return slices.DeleteFunc(slices.Clone(of.Spec.Tolerations), func(t corev1.Toleration) bool {
		return strings.HasPrefix(t.Key, "node.kubernetes.io/")
	})
}

// Affinity returns the affinity to the nodes that a selector matches and that run Linux.
func Affinity(selector *metav1.LabelSelector) *corev1.Affinity {
	term := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: corev1.LabelOSStable, Operator: corev1.NodeSelectorOpNotIn, Values: []string{string(corev1.Windows)}},
	}}
	if selector != nil {
		for _, key := range slices.Sorted(maps.Keys(selector.MatchLabels)) {
			term.MatchExpressions = append(term.MatchExpressions, corev1.NodeSelectorRequirement{
				Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{selector.MatchLabels[key]},
			})
		}
		for _, e := range selector.MatchExpressions {
			term.MatchExpressions = append(term.MatchExpressions,
				corev1.NodeSelectorRequirement{Key: e.Key, Operator: corev1.NodeSelectorOperator(e.Operator), Values: e.Values})
		}
	}
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{term},
		},
	}}
}
