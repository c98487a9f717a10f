package install

import (
	"context"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cleat-dev/cleat/framework/nodeagents"
	"github.com/cleat-dev/cleat/server/internal/kube/repopassword"
)

// fieldOwner is the manager of fields that are applied.
const fieldOwner = "cleat-cli"

// Apply installs everything. It brings the definitions up to date. It creates the other objects unless they exist; with
// replace, it applies them instead. It calls applied after each object.
func Apply(ctx context.Context, c client.Client, o *Options, replace bool, applied func(name, action string)) error {
	objects, err := others(o)
	if err != nil {
		return err
	}
	if err := Definitions(ctx, c,
		func(name, action string) { applied("customresourcedefinition/"+name, action) }); err != nil {
		return err
	}
	for _, object := range objects {
		action, err := send(ctx, c, object, replace)
		if err != nil {
			return fmt.Errorf("install %s: %w%s", describe(object), err, remedy(object, err))
		}
		applied(describe(object), action)
	}
	return ensurePassword(ctx, c, o.Namespace, applied)
}

// ensurePassword gives a new installation a password of its own for the repositories of volumes. One that exists stays.
// It is not among the objects of an installation, which may be printed and applied again: then the repositories would
// not open any more.
func ensurePassword(ctx context.Context, c client.Client, namespace string, applied func(name, action string)) error {
	password, created, err := repopassword.Ensure(ctx, c, c, namespace)
	switch {
	case err != nil:
		return fmt.Errorf("give the repositories of volumes a password: %w", err)
	case created && !repopassword.IsPublic(password):
		applied("secret/"+repopassword.SecretName, "created; keep a copy of it outside of the cluster, without which "+
			"nobody can restore volumes elsewhere")
	case created:
		applied("secret/"+repopassword.SecretName, "created with the public password that the repositories of volumes have")
	case repopassword.IsPublic(password):
		applied("secret/"+repopassword.SecretName, "exists and was left as it is; "+repopassword.Warning)
	}
	return nil
}

// send creates or applies an object. The API server refuses unknown fields.
func send(
	ctx context.Context, c client.Client, object *unstructured.Unstructured, replace bool,
) (action string, err error) {
	strict := client.WithFieldValidation(c, "Strict")
	if replace {
		return "applied", strict.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.ForceOwnership,
			client.FieldOwner(fieldOwner))
	}
	err = strict.Create(ctx, object.DeepCopy(), client.FieldOwner(fieldOwner))
	if apierrors.IsAlreadyExists(err) {
		return "exists and was left as it is; --apply updates it", nil
	}
	return "created", err
}

// ApplyObject creates or applies an object, as an installation with replace does.
func ApplyObject(ctx context.Context, c client.Client, object runtime.Object) error {
	plain, err := unstructuredOf(object)
	if err == nil {
		_, err = send(ctx, c, plain, true)
	}
	return err
}

// describe returns the kind and the name of an object, with its namespace where that is not clear.
func describe(object *unstructured.Unstructured) string {
	name := strings.ToLower(object.GetKind()) + "/" + object.GetName()
	if object.GetLabels()[installationLabel] != "" && object.GetNamespace() != "" {
		return name + " in namespace " + object.GetNamespace()
	}
	return name
}

// remedy returns the remedy for an error; empty if the error has it.
func remedy(object *unstructured.Unstructured, err error) string {
	switch {
	case apierrors.IsInvalid(err) && strings.HasSuffix(object.GetKind(), "Binding"):
		return "; a binding cannot change its role: delete it, then install again"
	case apierrors.IsNotFound(err) && object.GetLabels()[installationLabel] != "":
		return "; a namespace must exist before it can be opened to the server"
	}
	return ""
}

// AwaitServer waits until the current revision of a Deployment is available. It calls waiting whenever the reason to
// wait changes.
func AwaitServer(ctx context.Context, c client.Client, namespace, name string, waiting func(why string)) error {
	var d appsv1.Deployment
	return awaitPods(ctx, c, namespace, name, &d, "deploy="+component, waiting,
		func() (available, wanted int32, done bool) {
			s := d.Status
			done = s.ObservedGeneration >= d.Generation && s.UpdatedReplicas == *d.Spec.Replicas &&
				s.UpdatedReplicas == s.Replicas && s.AvailableReplicas == s.Replicas
			return s.AvailableReplicas, *d.Spec.Replicas, done
		})
}

// AwaitNodeAgents is AwaitServer for the DaemonSet of the node agents.
func AwaitNodeAgents(ctx context.Context, c client.Client, namespace, name string, waiting func(why string)) error {
	var d appsv1.DaemonSet
	return awaitPods(ctx, c, namespace, name, &d, "role="+nodeagents.Role, waiting,
		func() (available, wanted int32, done bool) {
			s := d.Status
			done = s.ObservedGeneration >= d.Generation && s.UpdatedNumberScheduled == s.DesiredNumberScheduled &&
				s.NumberAvailable == s.DesiredNumberScheduled
			return s.NumberAvailable, s.DesiredNumberScheduled, done
		})
}

// awaitPods waits until the pods of an object are available, as state reports after each look at it.
func awaitPods(
	ctx context.Context, c client.Client, namespace, name string, object client.Object, label string,
	waiting func(why string),
	state func() (available, wanted int32, done bool),
) error {
	last := ""
	err := wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object); err != nil {
			return false, err
		}
		available, wanted, done := state()
		if why := fmt.Sprintf("%d of %d pods are available", available, wanted); !done && why != last {
			last = why
			waiting(why)
		}
		return done, nil
	})
	if err != nil {
		return fmt.Errorf("wait for the pods of %s: %w (%s); \"kubectl -n %s describe pods -l %s\" shows why", name, err,
			last, namespace, label)
	}
	return nil
}
