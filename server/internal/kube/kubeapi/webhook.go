package kubeapi

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/server/internal/kube/webhook"
)

// lookupTimeout limits the requests that find out which requests a webhook is called for.
const lookupTimeout = 10 * time.Second

// neededBy returns a function that reports whether the API server certainly calls the admission webhook of that name
// for a request. The configuration is read once, by the first call.
func (c *Client) neededBy(name string) func(context.Context, *Request) bool {
	var mu sync.Mutex
	var hooks []webhook.Webhook
	read, namespaces := false, map[string]labels.Set{}
	return func(ctx context.Context, r *Request) bool {
		operation := operationOf(r)
		if operation == "" {
			return false
		}
		mu.Lock()
		defer mu.Unlock()
		if !read {
			hooks, read = c.webhooks(ctx, name), true
		}
		around := func() labels.Set {
			if _, known := namespaces[r.Namespace]; !known {
				namespaces[r.Namespace] = c.namespaceLabels(ctx, r.Namespace)
			}
			return namespaces[r.Namespace]
		}
		// If several configurations have a webhook of that name, the reply does not name the one that failed.
		return len(hooks) > 0 &&
			!slices.ContainsFunc(hooks, func(hook webhook.Webhook) bool { return !isCalled(&hook, operation, r, around) })
	}
}

// webhooks returns the admission webhooks of that name, none if they cannot be read.
func (c *Client) webhooks(ctx context.Context, name string) []webhook.Webhook {
	var found []webhook.Webhook
	for _, resource := range []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"} {
		var list struct {
			Items []webhook.Configuration `json:"items"`
		}
		gvr := schema.GroupVersionResource{Group: admissionv1.GroupName, Version: "v1", Resource: resource}
		if !c.look(ctx, &Request{Resource: gvr}, &list) {
			return nil
		}
		for _, configuration := range list.Items {
			for _, hook := range configuration.Webhooks {
				if hook.Name == name {
					found = append(found, hook)
				}
			}
		}
	}
	return found
}

// namespaceLabels returns the labels of a namespace, nil if they cannot be read.
func (c *Client) namespaceLabels(ctx context.Context, name string) labels.Set {
	var live metav1.PartialObjectMetadata
	gvr := schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	if !c.look(ctx, &Request{Resource: gvr, Name: name, Accept: Metadata}, &live) {
		return nil
	}
	if live.Labels == nil {
		return labels.Set{}
	}
	return live.Labels
}

// look reads something once, and reports whether that worked.
func (c *Client) look(ctx context.Context, r *Request, into any) bool {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	body, err := c.send(ctx, r, nil)
	return err == nil && json.Unmarshal(body, into) == nil
}

// operationOf returns the operation as which a request is admitted, or "" if it is not. A conditional apply creates.
func operationOf(r *Request) admissionv1.OperationType {
	switch {
	case r.Resource.Group == admissionv1.GroupName: // never sent to webhooks
		return ""
	case r.method() == http.MethodPost, r.ContentType == Apply && r.Conditional:
		return admissionv1.Create
	case r.method() == http.MethodPatch, r.method() == http.MethodPut:
		return admissionv1.Update
	}
	return ""
}

// isCalled reports whether the API server certainly calls a webhook.
func isCalled(
	hook *webhook.Webhook, operation admissionv1.OperationType, r *Request, around func() labels.Set,
) bool {
	return len(hook.MatchConditions) == 0 && hook.Matches(webhook.Request{
		Operation: operation, Resource: r.Resource, Subresource: r.Subresource, Namespace: r.Namespace,
		Labels: objectLabels(r), Around: around,
	})
}

// objectLabels returns the labels of the object in a request, nil if the request has only a part of it.
func objectLabels(r *Request) labels.Set {
	var object struct {
		Metadata struct{ Labels labels.Set }
	}
	if r.ContentType == MergePatch || json.Unmarshal(r.Body, &object) != nil {
		return nil
	}
	if object.Metadata.Labels == nil {
		return labels.Set{}
	}
	return object.Metadata.Labels
}
