package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// CancelAnnotation of a Backup or Restore with the value "true" requests that it ends early. A running one fails, the
// asynchronous operations that its plugins have started are cancelled, and one that waits for operations goes on
// without them. It cannot be taken back.
const CancelAnnotation = "cleat.dev/cancel"

// CancelRequested reports whether an object has the CancelAnnotation.
func CancelRequested(object metav1.Object) bool {
	return object.GetAnnotations()[CancelAnnotation] == "true"
}
