package validation

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/kube/configmap"
	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
)

// ReadConfigMap reads and parses the config map to which a field of a spec refers. It returns nil without a reference,
// and for a reference to another kind, which is a problem of the spec. An error means that the config map could not be
// read.
func ReadConfigMap[T any](ctx context.Context, c *run.Cluster, namespace, field string,
	ref *velerov1.TypedLocalObjectReference,
	parse func(*corev1.ConfigMap) (*T, error),
) (document *T, problems []string, err error) {
	if ref == nil || !configmap.IsKind(ref.Kind) {
		return nil, nil, nil
	}
	if err := kubeapi.CheckName(field+".name", ref.Name); err != nil {
		return nil, []string{err.Error()}, nil
	}
	cm := new(corev1.ConfigMap)
	err = c.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ref.Name}, cm)
	if apierrors.IsNotFound(err) {
		return nil, []string{fmt.Sprintf("%s: config map %s/%s does not exist; create it, or name another", field, namespace,
			ref.Name)}, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("get config map %s/%s: %w", namespace, ref.Name, err)
	}
	if document, err = parse(cm); err != nil {
		return nil, []string{fmt.Sprintf("%s: %v", field, err)}, nil
	}
	return document, nil, nil
}
