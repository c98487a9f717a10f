package requests

import (
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/kube/signing"
)

// proofAnnotation of a request is the proof that the server has answered it. The creator of a request can write a
// status, but no proof: then the request is answered as if it had no status.
const proofAnnotation = "cleat.dev/answer-proof"

// seal adds the proof of the answer to an object.
func seal(key *signing.Key, object client.Object, answer ...string) {
	annotations := maps.Clone(object.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[proofAnnotation] = key.Sign("answer", append([]string{string(object.GetUID())}, answer...)...)
	object.SetAnnotations(annotations)
}

// isSealed reports whether the server has written the answer to a request.
func isSealed(key *signing.Key, object client.Object, answer ...string) bool {
	return key.Proves(object.GetAnnotations()[proofAnnotation], "answer",
		append([]string{string(object.GetUID())}, answer...)...)
}

// downloadAnswer returns the content of a DownloadRequest that its proof covers.
func downloadAnswer(request *velerov1.DownloadRequest) []string {
	target, status := request.Spec.Target, request.Status
	return []string{
		"DownloadRequest", string(target.Kind), target.Name, request.Annotations[velerov1.FileAnnotation],
		string(status.Phase), status.DownloadURL, moment(status.Expiration),
	}
}

// statusAnswer returns the content of a ServerStatusRequest that its proof covers: the time of the answer. The answer
// itself matters to its creator only.
func statusAnswer(request *velerov1.ServerStatusRequest) []string {
	return []string{"ServerStatusRequest", string(request.Status.Phase), moment(request.Status.ProcessedTimestamp)}
}

func moment(t *metav1.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
