package run

import (
	"errors"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Refused reports whether a write failed because the API server refuses this particular object, and not all current
// requests: an admission policy, a webhook or the validation of the definition rejects it.
func Refused(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	switch code := status.Status().Code; code {
	case http.StatusUnauthorized, http.StatusNotFound, http.StatusRequestTimeout, http.StatusConflict,
		http.StatusTooManyRequests:
		return false
	case http.StatusInternalServerError:
		return strings.Contains(status.Status().Message, "webhook") // it does not answer, or its answer is invalid
	default:
		return code >= http.StatusBadRequest && code < http.StatusInternalServerError
	}
}
