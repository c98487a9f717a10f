package plan

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
	"github.com/cleat-dev/cleat/server/internal/spec/filter"
)

// WhyNotResource says which filter leaves out all objects of a resource, which IncludesResource does not include.
func (s *Selection) WhyNotResource(gr schema.GroupResource) string {
	if s.ExcludesResource(gr) {
		return "excludedResources excludes " + gr.String()
	}
	return "includedResources does not include " + gr.String()
}

// WhyNotSelected says which filter leaves out an object that Selects does not select. It is the same for all objects of
// a resource and a namespace, except for namespaces themselves.
func (s *Selection) WhyNotSelected(e archive.Entry) string {
	namespace := e.Namespace
	if e.GroupResource == namespacesResource {
		namespace = e.Name
	}
	switch include := s.spec.IncludeClusterResources; {
	case namespace != "" && !s.namespaces.Match(namespace):
		if excluded, err := filter.NewNamespaces(nil, s.spec.ExcludedNamespaces, s.present); err == nil &&
			!excluded.Match(namespace) {
			return "excludedNamespaces excludes " + namespace
		}
		return "includedNamespaces does not include " + namespace
	case include != nil:
		return "includeClusterResources is false"
	}
	return "only some namespaces are restored, so that cluster-scoped objects need includeClusterResources: true"
}

// WhyNotContent says which filter leaves out an object that MatchesContent does not match.
func (s *Selection) WhyNotContent(e archive.Entry, kind string, objectLabels map[string]string) string {
	if _, decided := s.resolved.Load().rules.Select(e.GroupResource, kind, e.Namespace, e.Name, objectLabels); decided {
		return "the resource policy (spec.resourcePolicy) leaves it out"
	}
	return "its labels do not match labelSelector or orLabelSelectors"
}

// WhyNotRestored says why an object that the filters select is not restored.
func (s *Selection) WhyNotRestored(e archive.Entry) string {
	if IsNonRestorable(e.GroupResource) {
		return "objects of this resource are never restored"
	}
	return "a server would act on it or lives on it"
}
