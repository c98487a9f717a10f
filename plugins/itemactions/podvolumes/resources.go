package podvolumes

import (
	"cmp"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// amounts are the keys of the ConfigMap for the resources of the init container, with Velero's defaults.
var amounts = []struct {
	name                   corev1.ResourceName
	request, limit, normal string
	least                  resource.Quantity // with which the program works
}{
	{corev1.ResourceCPU, "cpuRequest", "cpuLimit", "100m", resource.MustParse("10m")},
	{corev1.ResourceMemory, "memRequest", "memLimit", "128Mi", resource.MustParse("48Mi")},
}

// resourcesFor returns the resources of the init container of a pod: those of the settings, and by default Velero's, or
// less. It takes no more than the other containers of the pod, because a quota counts the larger of both, and what the
// LimitRanges of the namespace permit.
func resourcesFor(
	ctx context.Context, api client.Client, settings map[string]string, pod *corev1.Pod,
) (corev1.ResourceRequirements, error) {
	r := corev1.ResourceRequirements{Requests: corev1.ResourceList{}, Limits: corev1.ResourceList{}}
	var ranges corev1.LimitRangeList
	if err := api.List(ctx, &ranges, client.InNamespace(pod.Namespace)); err != nil {
		return r, fmt.Errorf("list the LimitRanges of namespace %s: %w", pod.Namespace, err)
	}
	for _, a := range amounts {
		permits := permittedBy(ranges.Items, a.name)
		limit, err := quantity(settings, a.limit, a.normal)
		if err != nil {
			return r, err
		}
		request, err := quantity(settings, a.request, a.normal)
		if err != nil {
			return r, err
		}
		if settings[a.limit] == "" {
			if others := sumOf(pod, a.name, limitOf); others != nil {
				limit = least(limit, most(*others, a.least))
			}
			limit = permits.fit(limit)
		}
		if settings[a.request] == "" {
			if others := sumOf(pod, a.name, requestOf); others != nil {
				request = least(request, *others)
			}
			request = permits.fit(request)
			if !limit.IsZero() && (request.Cmp(limit) > 0 || permits.exceeds(limit, request)) {
				request = limit
			}
		}
		if !limit.IsZero() && request.Cmp(limit) > 0 {
			return r, wrongSetting(fmt.Errorf("the request of %s, %s, is above its limit, %s", a.name, &request, &limit))
		}
		if why := permits.refuses(limit, request); why != "" && settings[a.limit]+settings[a.request] != "" {
			return r, wrongSetting(fmt.Errorf("a LimitRange of namespace %s refuses init container %s: its %s has the limit %s "+
				"and the request %s, and %s; change data.%s and data.%s, or leave them out",
				pod.Namespace, waitContainer, a.name, &limit, &request, why, a.limit, a.request))
		}
		if !limit.IsZero() { // zero means none
			r.Limits[a.name] = limit
		}
		if !request.IsZero() {
			r.Requests[a.name] = request
		}
	}
	return r, nil
}

// quantity returns the value of a key, or its default.
func quantity(settings map[string]string, key, normal string) (resource.Quantity, error) {
	text := cmp.Or(settings[key], normal)
	value, err := resource.ParseQuantity(text)
	if err != nil {
		err = wrongSetting(fmt.Errorf("data.%s: %q is not a quantity such as %s", key, text, normal))
	}
	return value, err
}

func least(a, b resource.Quantity) resource.Quantity {
	if a.Cmp(b) > 0 {
		return b
	}
	return a
}

func most(a, b resource.Quantity) resource.Quantity {
	if a.Cmp(b) < 0 {
		return b
	}
	return a
}

func limitOf(r *corev1.ResourceRequirements, name corev1.ResourceName) (resource.Quantity, bool) {
	limit, ok := r.Limits[name]
	return limit, ok
}

// requestOf returns the request of a container, which is its limit if only that is set.
func requestOf(r *corev1.ResourceRequirements, name corev1.ResourceName) (resource.Quantity, bool) {
	if request, ok := r.Requests[name]; ok {
		return request, true
	}
	return limitOf(r, name)
}

// sumOf returns a sum over the containers of a pod, nil if one of them has no value.
func sumOf(
	pod *corev1.Pod, name corev1.ResourceName,
	of func(*corev1.ResourceRequirements, corev1.ResourceName) (resource.Quantity, bool),
) *resource.Quantity {
	var sum resource.Quantity
	for i := range pod.Spec.Containers {
		value, ok := of(&pod.Spec.Containers[i].Resources, name)
		if !ok || value.IsZero() {
			return nil
		}
		sum.Add(value)
	}
	if sum.IsZero() {
		return nil
	}
	return &sum
}

// permitted is what LimitRanges permit for a resource of a container.
type permitted struct {
	min, max, ratio *resource.Quantity // nil for none
}

func permittedBy(ranges []corev1.LimitRange, name corev1.ResourceName) (p permitted) {
	narrow := func(
		to **resource.Quantity, list corev1.ResourceList, choose func(a, b resource.Quantity) resource.Quantity,
	) {
		value, ok := list[name]
		if ok && *to != nil {
			value = choose(value, **to)
		}
		if ok {
			*to = &value
		}
	}
	for i := range ranges {
		for _, item := range ranges[i].Spec.Limits {
			switch item.Type {
			case corev1.LimitTypeContainer:
				narrow(&p.min, item.Min, most)
				narrow(&p.max, item.Max, least)
				narrow(&p.ratio, item.MaxLimitRequestRatio, least)
			case corev1.LimitTypePod: // of which the container may be the largest part
				narrow(&p.max, item.Max, least)
				narrow(&p.ratio, item.MaxLimitRequestRatio, least)
			}
		}
	}
	return p
}

// fit returns the permitted value that is next to a value.
func (p permitted) fit(value resource.Quantity) resource.Quantity {
	if p.min != nil {
		value = most(value, *p.min)
	}
	if p.max != nil {
		value = least(value, *p.max)
	}
	return value
}

// refuses returns why a limit and a request are not permitted, or "" if they are. Zero means none, for which a
// LimitRange has defaults.
func (p permitted) refuses(limit, request resource.Quantity) string {
	switch {
	case p.max != nil && limit.Cmp(*p.max) > 0:
		return "the limit is at most " + p.max.String()
	case p.min != nil && !request.IsZero() && request.Cmp(*p.min) < 0:
		return "the request is at least " + p.min.String()
	case p.exceeds(limit, request) && !request.IsZero():
		return "the limit is at most " + p.ratio.String() + " times the request"
	}
	return ""
}

// exceeds reports whether a limit is too large for a request.
func (p permitted) exceeds(limit, request resource.Quantity) bool {
	return p.ratio != nil && limit.AsApproximateFloat64() > p.ratio.AsApproximateFloat64()*request.AsApproximateFloat64()
}
