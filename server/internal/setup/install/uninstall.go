package install

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const uninstallPoll = 200 * time.Millisecond

// Uninstall removes what Apply or Velero's client has installed. The files in buckets stay.
type Uninstall struct {
	Client    client.Client
	Namespace string
	Grace     time.Duration // for the server to remove its finalizers; after it, Uninstall removes them
	Removed   func(name, action string)
}

// Run removes the installation, and waits until the API server has done so. It may be called again after an error.
func (u *Uninstall) Run(ctx context.Context) error {
	if err := apiextensionsv1.AddToScheme(u.Client.Scheme()); err != nil {
		return fmt.Errorf("build the scheme: %w", err)
	}
	kinds, err := u.definitions(ctx)
	if err != nil {
		return err
	}
	// Custom resources come first, while the server still runs and handles their finalizers.
	if err := u.customResources(ctx, kinds); err != nil {
		return err
	}
	if err := u.namespace(ctx); err != nil {
		return err
	}
	if err := u.outside(ctx); err != nil {
		return err
	}
	return u.removeDefinitions(ctx, kinds)
}

// definitions returns the definitions of Velero's group in the cluster.
func (u *Uninstall) definitions(ctx context.Context) ([]apiextensionsv1.CustomResourceDefinition, error) {
	var list apiextensionsv1.CustomResourceDefinitionList
	if err := u.Client.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("list the custom resource definitions: %w", err)
	}
	return slices.DeleteFunc(list.Items,
		func(d apiextensionsv1.CustomResourceDefinition) bool { return d.Spec.Group != "velero.io" }), nil
}

// list returns the objects that a definition defines, of one namespace, or of all if it is empty.
func (u *Uninstall) list(
	ctx context.Context, d *apiextensionsv1.CustomResourceDefinition, namespace string,
) ([]unstructured.Unstructured, error) {
	i := slices.IndexFunc(d.Spec.Versions,
		func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Served })
	if i < 0 {
		return nil, nil
	}
	var list unstructured.UnstructuredList
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: d.Spec.Group, Version: d.Spec.Versions[i].Name,
		Kind: d.Spec.Names.ListKind})
	if err := u.Client.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list %s: %w", d.Spec.Names.Plural, err)
	}
	return list.Items, nil
}

// customResources deletes the custom resources of the installation. After the grace period, it stops the server and the
// node agents, and removes the finalizers that are left.
func (u *Uninstall) customResources(ctx context.Context, kinds []apiextensionsv1.CustomResourceDefinition) error {
	left := func(ctx context.Context, visit func(*unstructured.Unstructured) error) (count int, err error) {
		for i := range kinds {
			objects, err := u.list(ctx, &kinds[i], u.Namespace)
			if err != nil {
				return 0, err
			}
			for j := range objects {
				count++
				if err := visit(&objects[j]); client.IgnoreNotFound(err) != nil {
					return 0, fmt.Errorf("delete %s: %w", describe(&objects[j]), err)
				}
			}
		}
		return count, nil
	}
	remove := func(object *unstructured.Unstructured) error {
		if object.GetDeletionTimestamp() != nil {
			return nil
		}
		return u.Client.Delete(ctx, object)
	}
	gone := func(visit func(*unstructured.Unstructured) error) wait.ConditionWithContextFunc {
		return func(ctx context.Context) (bool, error) {
			count, err := left(ctx, visit)
			return count == 0, err
		}
	}
	err := wait.PollUntilContextTimeout(ctx, uninstallPoll, u.Grace, true, gone(remove))
	if err == nil || ctx.Err() != nil || !wait.Interrupted(err) {
		return err
	}
	if err := u.stop(ctx); err != nil {
		return err
	}
	return wait.PollUntilContextCancel(ctx, uninstallPoll, true, gone(func(object *unstructured.Unstructured) error {
		if err := remove(object); err != nil {
			return err
		}
		if len(object.GetFinalizers()) == 0 {
			return nil
		}
		u.Removed(describe(object), "lost its finalizers, which no server has removed: "+strings.Join(object.GetFinalizers(),
			", "))
		return u.Client.Patch(ctx, object, client.RawPatch("application/merge-patch+json",
			[]byte(`{"metadata":{"finalizers":null}}`)))
	}))
}

// stop deletes the server and the node agents with their pods.
func (u *Uninstall) stop(ctx context.Context) error {
	deployment, agents := &appsv1.Deployment{}, &appsv1.DaemonSet{}
	deployment.Name, agents.Name = component, DaemonSetName
	for _, object := range []client.Object{deployment, agents} {
		object.SetNamespace(u.Namespace)
		if err := u.Client.Delete(ctx, object, client.PropagationPolicy("Foreground")); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete %T %s: %w", object, object.GetName(), err)
		}
		if err := u.awaitGone(ctx, object); err != nil {
			return err
		}
	}
	return nil
}

// namespace deletes the namespace if an installation has made it, or else what an installation has made in it.
func (u *Uninstall) namespace(ctx context.Context) error {
	var namespace corev1.Namespace
	err := u.Client.Get(ctx, client.ObjectKey{Name: u.Namespace}, &namespace)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if namespace.Labels[componentLabel] == component {
		return u.delete(ctx, &namespace, "namespace/"+u.Namespace)
	}
	for _, list := range []client.ObjectList{
		&appsv1.DeploymentList{}, &appsv1.DaemonSetList{}, &corev1.SecretList{}, &corev1.ServiceAccountList{},
		&corev1.ServiceList{},
		&rbacv1.RoleBindingList{}, &rbacv1.RoleList{},
	} {
		if err := u.deleteAll(ctx, list, client.InNamespace(u.Namespace), ComponentLabels()); err != nil {
			return err
		}
	}
	for _, list := range []client.ObjectList{&appsv1.DeploymentList{}, &corev1.ServiceList{}} {
		console := client.MatchingLabels{componentLabel: ConsoleName}
		if err := u.deleteAll(ctx, list, client.InNamespace(u.Namespace), console); err != nil {
			return err
		}
	}
	u.Removed("namespace/"+u.Namespace, "was left, because no installation has made it")
	return nil
}

// outside deletes what belongs to the installation outside of its namespace.
func (u *Uninstall) outside(ctx context.Context) error {
	binding := &rbacv1.ClusterRoleBinding{}
	binding.Name = clusterName(u.Namespace) // Velero's has no label of ours
	if err := u.delete(ctx, binding, "clusterrolebinding/"+binding.Name); err != nil {
		return err
	}
	ours := client.MatchingLabels{installationLabel: u.Namespace}
	for _, list := range []client.ObjectList{&rbacv1.RoleBindingList{}, &rbacv1.RoleList{},
		&rbacv1.ClusterRoleBindingList{}, &rbacv1.ClusterRoleList{}} {
		if err := u.deleteAll(ctx, list, ours); err != nil {
			return err
		}
	}
	return nil
}

// removeDefinitions deletes the definitions, unless another namespace has objects of them or a server.
func (u *Uninstall) removeDefinitions(ctx context.Context, kinds []apiextensionsv1.CustomResourceDefinition) error {
	user, err := u.otherUser(ctx, kinds)
	if err != nil {
		return err
	}
	if user != "" {
		u.Removed("customresourcedefinitions of velero.io", "were left, because "+user+" needs them")
		return nil
	}
	for i := range kinds {
		if err := u.delete(ctx, &kinds[i], "customresourcedefinition/"+kinds[i].Name); err != nil {
			return err
		}
	}
	return nil
}

// otherUser returns another user of the definitions; empty if there is none.
func (u *Uninstall) otherUser(ctx context.Context, kinds []apiextensionsv1.CustomResourceDefinition) (string, error) {
	var deployments appsv1.DeploymentList
	if err := u.Client.List(ctx, &deployments, ComponentLabels()); err != nil {
		return "", fmt.Errorf("look for other servers: %w", err)
	}
	for _, d := range deployments.Items {
		if d.Namespace != u.Namespace {
			return "the server in namespace " + d.Namespace, nil
		}
	}
	for i := range kinds {
		objects, err := u.list(ctx, &kinds[i], "")
		if err != nil {
			return "", err
		}
		if len(objects) > 0 {
			return fmt.Sprintf("%s in namespace %s", describe(&objects[0]), objects[0].GetNamespace()), nil
		}
	}
	return "", nil
}

func (u *Uninstall) deleteAll(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if err := u.Client.List(ctx, list, options...); err != nil {
		return fmt.Errorf("list %T: %w", list, err)
	}
	return meta.EachListItem(list, func(item runtime.Object) error {
		object, ok := item.(client.Object)
		if !ok {
			return fmt.Errorf("a list has %T", item)
		}
		kind, err := u.Client.GroupVersionKindFor(object)
		if err != nil {
			return err
		}
		return u.delete(ctx, object, strings.ToLower(kind.Kind)+"/"+object.GetName())
	})
}

// delete deletes an object, and waits until it does not exist.
func (u *Uninstall) delete(ctx context.Context, object client.Object, name string) error {
	err := u.Client.Delete(ctx, object, client.PropagationPolicy("Foreground"))
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err == nil {
		err = u.awaitGone(ctx, object)
	}
	if err != nil {
		return fmt.Errorf("delete %s: %w", name, err)
	}
	u.Removed(name, "deleted")
	return nil
}

func (u *Uninstall) awaitGone(ctx context.Context, object client.Object) error {
	err := wait.PollUntilContextCancel(ctx, uninstallPoll, true, func(ctx context.Context) (bool, error) {
		err := u.Client.Get(ctx, client.ObjectKeyFromObject(object), object)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
	if err != nil && errors.Is(err, ctx.Err()) {
		return fmt.Errorf("it is being deleted still: %w", err)
	}
	return err
}
