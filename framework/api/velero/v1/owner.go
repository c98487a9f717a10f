package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ControllerRef returns the reference of an object to the custom resource of this group that controls it, as Velero
// writes it: the deletion of the custom resource does not wait for the object.
func ControllerRef(kind string, owner metav1.Object) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: SchemeGroupVersion.String(), Kind: kind, Name: owner.GetName(), UID: owner.GetUID(),
		Controller: new(true),
	}
}
