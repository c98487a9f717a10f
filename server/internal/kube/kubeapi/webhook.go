package kubeapi

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// lookupTimeout limits the requests that find out which requests a webhook is called for.
const lookupTimeout = 10 * time.Second

// webhook is an admission webhook, mutating or validating, in its configuration.
type webhook struct {
	Name              string                           `json:"name"`
	Rules             []admissionv1.RuleWithOperations `json:"rules"`
	NamespaceSelector *metav1.LabelSelector            `json:"namespaceSelector"`
	ObjectSelector    *metav1.LabelSelector            `json:"objectSelector"`
	MatchConditions   []json.RawMessage                `json:"matchConditions"`
}

// neededBy returns a function that reports whether the API server certainly calls the admission webhook of that name
// for a request. The configuration is read once, by the first call.
func (c *Client) neededBy(name string) func(context.Context, *Request) bool {
	var mu sync.Mutex
	var hooks []webhook
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
		inNamespace := func() (labels.Set, bool) {
			if _, known := namespaces[r.Namespace]; !known {
				namespaces[r.Namespace] = c.namespaceLabels(ctx, r.Namespace)
			}
			return namespaces[r.Namespace], namespaces[r.Namespace] != nil
		}
		// If several configurations have a webhook of that name, the reply does not name the one that failed.
		return len(hooks) > 0 &&
			!slices.ContainsFunc(hooks, func(hook webhook) bool { return !hook.matches(operation, r, inNamespace) })
	}
}

// webhooks returns the admission webhooks of that name, none if they cannot be read.
func (c *Client) webhooks(ctx context.Context, name string) []webhook {
	var found []webhook
	for _, resource := range []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"} {
		var list struct {
			Items []struct {
				Webhooks []webhook `json:"webhooks"`
			} `json:"items"`
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

// matches reports whether the webhook is certainly called.
func (w *webhook) matches(operation admissionv1.OperationType, r *Request, inNamespace func() (labels.Set, bool)) bool {
	if len(w.MatchConditions) > 0 || !slices.ContainsFunc(w.Rules, func(rule admissionv1.RuleWithOperations) bool {
		return hasRule(rule, operation, r)
	}) {
		return false
	}
	own, complete := objectLabels(r)
	if !isEmpty(w.ObjectSelector) && (!complete || !selects(w.ObjectSelector, own)) {
		return false
	}
	switch {
	case isEmpty(w.NamespaceSelector):
		return true
	case r.Resource.GroupResource() == schema.GroupResource{Resource: "namespaces"}:
		return complete && selects(w.NamespaceSelector, own)
	case r.Namespace == "":
		return true // the selector is for objects in namespaces
	}
	around, known := inNamespace()
	return known && selects(w.NamespaceSelector, around)
}

func hasRule(rule admissionv1.RuleWithOperations, operation admissionv1.OperationType, r *Request) bool {
	if !hasOr(rule.Operations, operation, admissionv1.OperationAll) || !hasOr(rule.APIGroups, r.Resource.Group, "*") ||
		!hasOr(rule.APIVersions, r.Resource.Version, "*") {
		return false
	}
	if scope := rule.Scope; scope != nil && *scope != admissionv1.AllScopes &&
		(*scope == admissionv1.NamespacedScope) != (r.Namespace != "") {
		return false
	}
	return slices.ContainsFunc(rule.Resources, func(text string) bool {
		resource, subresource, _ := strings.Cut(text, "/")
		return (resource == "*" || resource == r.Resource.Resource) && (subresource == "*" || subresource == r.Subresource)
	})
}

func hasOr[T comparable](list []T, one, all T) bool {
	return slices.Contains(list, one) || slices.Contains(list, all)
}

func isEmpty(selector *metav1.LabelSelector) bool {
	return selector == nil || len(selector.MatchLabels)+len(selector.MatchExpressions) == 0
}

func selects(selector *metav1.LabelSelector, set labels.Set) bool {
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && parsed.Matches(set)
}

// objectLabels returns the labels of the object in a request. complete is false if the request has only a part of it.
func objectLabels(r *Request) (set labels.Set, complete bool) {
	var object struct {
		Metadata struct{ Labels map[string]string }
	}
	if r.ContentType == MergePatch || json.Unmarshal(r.Body, &object) != nil {
		return nil, false
	}
	return object.Metadata.Labels, true
}
