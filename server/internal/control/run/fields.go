package run

import (
	"context"
	"fmt"

	"github.com/hashicorp/go-hclog"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cleat-dev/cleat/server/internal/spec/gaps"
)

// Raw reads an object from the API server as it is stored there, and returns a warning for each field of its spec that
// this server does not know. The decoded objects of the cache do not have such fields.
func (c *Cluster) Raw(ctx context.Context, object client.Object) (*unstructured.Unstructured, []string, error) {
	kind, err := c.GroupVersionKindFor(object)
	if err != nil {
		return nil, nil, fmt.Errorf("find the kind of %T: %w", object, err)
	}
	raw := new(unstructured.Unstructured)
	raw.SetGroupVersionKind(kind)
	if err := c.Live.Get(ctx, client.ObjectKeyFromObject(object), raw); err != nil {
		return nil, nil, fmt.Errorf("get %s %s: %w", kind.Kind, object.GetName(), err)
	}
	typed, err := c.Scheme().New(kind)
	if err != nil {
		return nil, nil, fmt.Errorf("decode %s %s: %w", kind.Kind, object.GetName(), err)
	}
	return raw, gaps.Unknown(raw.Object, typed), nil
}

// UnknownFields returns the warnings of Raw for the object of a run, and writes them into the log of the run. A run
// does not fail because they cannot be found.
func (c *Cluster) UnknownFields(ctx context.Context, object client.Object, log hclog.Logger) []string {
	_, warnings, err := c.Raw(ctx, object)
	if err != nil {
		log.Warn("could not look for fields of the spec that this server does not know", "error", err)
	}
	for _, warning := range warnings {
		log.Warn(warning)
	}
	return warnings
}
