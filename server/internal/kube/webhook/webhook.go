package webhook

import (
	"encoding/json"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Configuration is a configuration of admission webhooks, mutating or validating.
type Configuration struct {
	Webhooks []Webhook `json:"webhooks"`
}

// Webhook is an admission webhook in its configuration.
type Webhook struct {
	Name              string                           `json:"name"`
	ClientConfig      admissionv1.WebhookClientConfig  `json:"clientConfig"`
	FailurePolicy     *admissionv1.FailurePolicyType   `json:"failurePolicy"`
	MatchPolicy       *admissionv1.MatchPolicyType     `json:"matchPolicy"`
	Rules             []admissionv1.RuleWithOperations `json:"rules"`
	NamespaceSelector *metav1.LabelSelector            `json:"namespaceSelector"`
	ObjectSelector    *metav1.LabelSelector            `json:"objectSelector"`
	MatchConditions   []json.RawMessage                `json:"matchConditions"`
}

// Request is the part of a request on which a webhook depends.
type Request struct {
	Operation   admissionv1.OperationType
	Resource    schema.GroupVersionResource
	Subresource string
	Namespace   string
	// Labels are those of the object; nil if they are not known.
	Labels labels.Set
	// Around returns the labels of the namespace; nil if they are not known.
	Around func() labels.Set
}

var namespaces = schema.GroupResource{Resource: "namespaces"}

// Fails reports whether the API server refuses a request if it cannot call the webhook.
func (w *Webhook) Fails() bool {
	return w.FailurePolicy == nil || *w.FailurePolicy == admissionv1.Fail
}

// Matches reports whether rules and selectors of the webhook match a request. Conditions may then exclude it still.
// Selectors do not match what is not known.
func (w *Webhook) Matches(r Request) bool {
	if r.Resource.Group == admissionv1.GroupName || !w.HasRule(r) { // configurations are never sent to webhooks
		return false
	}
	if !isEmpty(w.ObjectSelector) && (r.Labels == nil || !selects(w.ObjectSelector, r.Labels)) {
		return false
	}
	switch {
	case isEmpty(w.NamespaceSelector):
		return true
	case r.Resource.GroupResource() == namespaces:
		return r.Labels != nil && selects(w.NamespaceSelector, r.Labels)
	case r.Namespace == "":
		return true // the selector is for objects in namespaces
	}
	around := r.Around()
	return around != nil && selects(w.NamespaceSelector, around)
}

// HasRule reports whether a rule of the webhook matches a request.
func (w *Webhook) HasRule(r Request) bool {
	return slices.ContainsFunc(w.Rules, func(rule admissionv1.RuleWithOperations) bool { return matches(rule, r) })
}

func matches(rule admissionv1.RuleWithOperations, r Request) bool {
	if !hasOr(rule.Operations, r.Operation, admissionv1.OperationAll) || !hasOr(rule.APIGroups, r.Resource.Group, "*") ||
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
