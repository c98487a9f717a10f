package run

import (
	"errors"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Refused reports whether a write failed because the API server refuses this very object, and not all requests at the
// moment: an admission policy, a webhook or the validation of the definition does.
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
		return strings.Contains(status.Status().Message, "webhook") // it does not answer, or not as it must
	default:
		return code >= http.StatusBadRequest && code < http.StatusInternalServerError
	}
}
