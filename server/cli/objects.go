package cli

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// assign overwrites obj, which is one of the kinds that commands wait for, with the state that a
// watch brought.
func assign(obj client.Object, from runtime.Object) error {
	switch to := obj.(type) {
	case *velerov1.Backup:
		if b, ok := from.(*velerov1.Backup); ok {
			*to = *b
			return nil
		}
	case *velerov1.Restore:
		if r, ok := from.(*velerov1.Restore); ok {
			*to = *r
			return nil
		}
	default:
	}
	return fmt.Errorf("a watch of %T brought a %T", obj, from)
}

// resourceOf names the resource of an object in errors.
func resourceOf(obj client.Object) schema.GroupResource {
	switch obj.(type) {
	case *velerov1.Backup:
		return velerov1.Resource("backups")
	case *velerov1.Restore:
		return velerov1.Resource("restores")
	default:
		return schema.GroupResource{}
	}
}

// rawWatchFrom makes a watch begin after a state that is known.
func rawWatchFrom(resourceVersion string) *metav1.ListOptions {
	return &metav1.ListOptions{ResourceVersion: resourceVersion}
}
