package v1

import (
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AttemptAnnotation of a Backup or Restore is the number of its last attempt, from 1. A run that its server could not
// bring to an end, because it was stopped or killed, is attempted again by the next server.
const AttemptAnnotation = "cleat.dev/attempt"

// AttemptOf returns the number in the AttemptAnnotation of an object, or 1 if there is none.
func AttemptOf(object metav1.Object) int {
	attempt, err := strconv.Atoi(object.GetAnnotations()[AttemptAnnotation])
	if err != nil {
		return 1
	}
	return max(1, attempt)
}
