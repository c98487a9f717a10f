package restore

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/framework/podclaims"
	"github.com/cleat-dev/cleat/server/internal/engine/restore/plan"
	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
)

var gvrPods = schema.GroupVersionResource{Version: "v1", Resource: "pods"}

// repositorySecret has the password of the repositories of volumes. With another password, their data cannot be read.
const repositorySecret = "velero-repo-credentials"

// findServerParts finds the objects that must not be updated while the server runs: its pod and the controllers above
// it, whose update would stop the server, and the account, claims, secrets and config maps that the pod uses, which
// may be newer than the backup.
func (e *engine) findServerParts(ctx context.Context) error {
	if !slices.ContainsFunc(e.archive.Namespaces(),
		func(name string) bool { return e.selection.Target(name) == e.restore.Namespace }) {
		return nil
	}
	e.serverParts = map[serverPart]bool{{secretsResource, repositorySecret}: true}
	if e.options.Pod == "" {
		return nil
	}
	to := target{gvr: gvrPods, namespace: e.restore.Namespace}
	var pod corev1.Pod
	found, err := e.readServerPart(ctx, to, e.options.Pod, &pod)
	if !found {
		return err
	}
	e.serverParts[serverPart{podsResource, pod.Name}] = true
	for _, name := range usedBy(&pod) {
		e.serverParts[name] = true
	}
	owner := metav1.GetControllerOf(&pod)
	for owner != nil {
		gv, _ := schema.ParseGroupVersion(owner.APIVersion)
		known, ok := e.snapshot.Load().ByKind(gv.WithKind(owner.Kind).GroupKind())
		part := serverPart{schema.GroupResource{Group: gv.Group, Resource: known.Name}, owner.Name}
		if !ok || e.serverParts[part] {
			break
		}
		e.serverParts[part] = true
		var above metav1.PartialObjectMetadata
		to.gvr = gv.WithResource(known.Name)
		if found, err = e.readServerPart(ctx, to, owner.Name, &above); !found {
			return err
		}
		owner = metav1.GetControllerOf(&above)
	}
	return nil
}

// readServerPart reads an object in the namespace of the server. found is false if there is none.
func (e *engine) readServerPart(ctx context.Context, to target, name string, into any) (found bool, err error) {
	reply, err := e.api.Do(ctx, to.read(name, kubeapi.JSON))
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err == nil {
		err = json.Unmarshal(reply.Body, into)
	}
	if err != nil {
		return false, fmt.Errorf("find out what the server that restores runs with: %s %s: %w", to.gvr.Resource, name, err)
	}
	return true, nil
}

// usedBy returns the objects to which a pod refers.
func usedBy(pod *corev1.Pod) []serverPart {
	var parts []serverPart
	add := func(resource, name string) {
		parts = append(parts, serverPart{schema.GroupResource{Resource: resource}, name})
	}
	add("serviceaccounts", pod.Spec.ServiceAccountName)
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		switch {
		case volume.Secret != nil:
			add("secrets", volume.Secret.SecretName)
		case volume.ConfigMap != nil:
			add("configmaps", volume.ConfigMap.Name)
		}
		if claim := podclaims.Name(pod.Name, volume); claim != "" {
			add("persistentvolumeclaims", claim)
		}
		if volume.Projected == nil {
			continue
		}
		for _, source := range volume.Projected.Sources {
			if source.Secret != nil {
				add("secrets", source.Secret.Name)
			}
			if source.ConfigMap != nil {
				add("configmaps", source.ConfigMap.Name)
			}
		}
	}
	for _, secret := range pod.Spec.ImagePullSecrets {
		add("secrets", secret.Name)
	}
	for i := range pod.Spec.Containers {
		for _, from := range pod.Spec.Containers[i].EnvFrom {
			if from.SecretRef != nil {
				add("secrets", from.SecretRef.Name)
			}
			if from.ConfigMapRef != nil {
				add("configmaps", from.ConfigMapRef.Name)
			}
		}
		for _, variable := range pod.Spec.Containers[i].Env {
			if variable.ValueFrom != nil && variable.ValueFrom.SecretKeyRef != nil {
				add("secrets", variable.ValueFrom.SecretKeyRef.Name)
			}
			if variable.ValueFrom != nil && variable.ValueFrom.ConfigMapKeyRef != nil {
				add("configmaps", variable.ValueFrom.ConfigMapKeyRef.Name)
			}
		}
	}
	return parts
}

// isNeededByServer reports whether an existing object is not updated, because the server that restores depends on it.
func (e *engine) isNeededByServer(to target, name string) bool {
	gr := to.gvr.GroupResource()
	return plan.IsServerDefinition(gr, name) || to.namespace == e.restore.Namespace && e.serverParts[serverPart{gr, name}]
}
