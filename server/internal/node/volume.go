package node

import (
	"context"
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/podclaims"
)

// described holds the properties of a volume that were read from its claim.
type described struct {
	class string
	bytes int64
}

// describe completes the properties of the volume of a New load from its claim. The claim is read once for each load.
func (q *admission) describe(ctx context.Context, l *load) {
	if l.spec.storageClass != "" && l.spec.bytes != 0 {
		return
	}
	known, done := q.described[l.GetUID()]
	if !done {
		var err error
		if known, err = q.readClaim(ctx, l); err != nil {
			q.Log.Warn("the volume claim of a load could not be read, so the policy gets it without storage class and "+
				"size", "kind", l.name, "name", l.GetName(), "error", err)
			return
		}
		q.described[l.GetUID()] = known
	}
	if l.spec.storageClass == "" {
		l.spec.storageClass = known.class
	}
	if l.spec.bytes == 0 {
		l.spec.bytes = known.bytes
	}
}

// readClaim reads the claim of a load. Unknown properties are zero.
func (q *admission) readClaim(ctx context.Context, l *load) (described, error) {
	key := l.spec.claim
	if l.podLabel == "" {
		pod, err := q.pod(ctx, l)
		if err != nil {
			return described{}, err
		}
		key = claimOf(pod, l.spec.volume)
	}
	if key.Name == "" {
		return described{}, nil
	}
	var claim corev1.PersistentVolumeClaim
	if err := q.Live.Get(ctx, key, &claim); apierrors.IsNotFound(err) {
		return described{}, nil
	} else if err != nil {
		return described{}, err
	}
	size, bound := claim.Status.Capacity[corev1.ResourceStorage]
	if !bound {
		size = claim.Spec.Resources.Requests[corev1.ResourceStorage]
	}
	d := described{bytes: size.Value()}
	if claim.Spec.StorageClassName != nil {
		d.class = *claim.Spec.StorageClassName
	}
	return d, nil
}

// claimOf returns the key of the claim of a pod's volume, empty if it has none.
func claimOf(pod *corev1.Pod, name string) (key types.NamespacedName) {
	if pod == nil {
		return key
	}
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		if claim := podclaims.Name(pod.Name, volume); volume.Name == name && claim != "" {
			return client.ObjectKey{Namespace: pod.Namespace, Name: claim}
		}
	}
	return key
}

// annotate records the properties of the claim on a load, so that all agents count it alike.
func annotate(l *load, of *spec) {
	annotations := maps.Clone(l.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	if of.storageClass != l.spec.storageClass {
		annotations[velerov1.LoadStorageClassAnnotation] = of.storageClass
	}
	if of.bytes != l.spec.bytes {
		annotations[velerov1.LoadBytesAnnotation] = strconv.FormatInt(of.bytes, 10)
	}
	l.SetAnnotations(annotations)
}
