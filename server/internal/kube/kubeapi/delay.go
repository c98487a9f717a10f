package kubeapi

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// delay is the header Retry-After of a reply in seconds. client-go drops the header of a reply whose body is a
// Status.
type delay struct{ seconds int }

type delayKey struct{}

// withDelay returns a context for one attempt and the delay that its reply requests.
func withDelay(ctx context.Context) (context.Context, *delay) {
	d := &delay{}
	return context.WithValue(ctx, delayKey{}, d), d
}

// addTo adds the delay to a Status that has none.
func (d *delay) addTo(err error) error {
	var status *apierrors.StatusError
	if d.seconds <= 0 || !errors.As(err, &status) {
		return err
	}
	if status.ErrStatus.Details == nil {
		status.ErrStatus.Details = &metav1.StatusDetails{}
	}
	if status.ErrStatus.Details.RetryAfterSeconds == 0 {
		status.ErrStatus.Details.RetryAfterSeconds = int32(min(d.seconds, 3600))
	}
	return err
}

// delayRecorder records the delay of replies in the context of their requests.
type delayRecorder struct{ next http.RoundTripper }

func (r delayRecorder) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := r.next.RoundTrip(request)
	if d, ok := request.Context().Value(delayKey{}).(*delay); ok && err == nil {
		d.seconds, _ = strconv.Atoi(response.Header.Get("Retry-After"))
	}
	return response, err
}
