package readable

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// List lists objects from the API server, as reader does. Objects that cannot be read are left out: leftOut gets an
// error for each.
func List(
	ctx context.Context, reader client.Reader, scheme *runtime.Scheme, list client.ObjectList, leftOut func(error),
	options ...client.ListOption,
) error {
	err := reader.List(ctx, list, options...)
	if !IsUnreadable(err) {
		return err
	}
	kind, kindErr := apiutil.GVKForObject(list, scheme)
	if kindErr != nil {
		return err
	}
	return Readable(ctx, reader, scheme, kind, list, leftOut, options...)
}

// IsUnreadable reports whether a list failed because an object in the answer of the API server cannot be read.
func IsUnreadable(err error) bool {
	var status apierrors.APIStatus
	var unreachable *url.Error
	return err != nil && !errors.As(err, &status) && !errors.As(err, &unreachable) && !meta.IsNoMatchError(err) &&
		!errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

// Readable lists the objects that can be decoded. kind is the kind of the list, for example BackupList.
func Readable(ctx context.Context, reader client.Reader, scheme *runtime.Scheme, kind schema.GroupVersionKind,
	list client.ObjectList,
	leftOut func(error), options ...client.ListOption,
) error {
	found := new(unstructured.UnstructuredList)
	found.SetGroupVersionKind(kind)
	if err := reader.List(ctx, found, options...); err != nil {
		return err
	}
	kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	var objects []runtime.Object
	for i := range found.Items {
		object, err := scheme.New(kind)
		if err != nil {
			return err
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found.Items[i].Object, object); err != nil {
			leftOut(fmt.Errorf("%s %s cannot be read: %w", kind.Kind, client.ObjectKeyFromObject(&found.Items[i]), err))
			continue
		}
		objects = append(objects, object)
	}
	list.SetResourceVersion(found.GetResourceVersion())
	list.SetContinue(found.GetContinue())
	return meta.SetList(list, objects)
}

// Reader reads from the API server, and leaves out of lists what cannot be read.
type Reader struct {
	client.Reader
	Scheme  *runtime.Scheme
	LeftOut func(error)
}

// List implements client.Reader.
func (r Reader) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	return List(ctx, r.Reader, r.Scheme, list, r.LeftOut, options...)
}
