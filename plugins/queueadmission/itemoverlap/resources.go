package itemoverlap

import (
	"slices"
	"strings"
)

// resources holds the resource lists of one scope.
type resources struct {
	include []string // empty means all
	exclude []string

	included, excluded []resource
	all                bool
}

// resource is a resource as identified by its name.
type resource struct {
	name  string // "deployments.apps", "pods", "*"; empty if unknown
	group string
	known bool
	doubt bool // it may be any resource
}

// resolve returns the resources that the lists name.
func (r *resources) resolve() {
	r.all = len(r.include) == 0 || slices.Contains(r.include, "*")
	for _, text := range r.include {
		r.included = append(r.included, resourceNamed(text))
	}
	for _, text := range r.exclude {
		r.excluded = append(r.excluded, resourceNamed(text))
	}
}

// apart reports whether the lists certainly have no resource in common.
func (r resources) apart(other resources) bool {
	if r.all && other.all {
		return slices.Contains(r.exclude, "*") || slices.Contains(other.exclude, "*")
	}
	if r.all {
		return other.apart(r)
	}
	for _, mine := range r.included {
		if r.excludes(mine) || other.excludes(mine) {
			continue
		}
		if other.all || slices.ContainsFunc(other.included, func(theirs resource) bool {
			return !mine.differs(theirs) && !r.excludes(theirs) && !other.excludes(theirs)
		}) {
			return false
		}
	}
	return true
}

// excludes reports whether the lists certainly exclude a resource.
func (r resources) excludes(what resource) bool {
	return slices.ContainsFunc(r.excluded, func(e resource) bool {
		return e.name == "*" || what.known && e.known && e.name == what.name
	})
}

// may reports whether the lists may include a built-in resource, given by its plural.
func (r resources) may(plural string) bool {
	what := resourceNamed(plural)
	included := r.all || slices.ContainsFunc(r.included, func(i resource) bool { return !i.differs(what) })
	return included && !r.excludes(what)
}

// differs reports whether two resources are certainly different. All spellings of a known resource are known, so an
// unknown one is different from it. Two unknown names may mean one resource unless their groups differ. The end of a
// group may be cut off.
func (r resource) differs(other resource) bool {
	switch {
	case r.doubt || other.doubt:
		return false
	case r.known && other.known:
		return r.name != other.name
	case r.known || other.known:
		return true
	default:
		return !strings.HasPrefix(r.group, other.group) && !strings.HasPrefix(other.group, r.group)
	}
}

// resourceNamed interprets a name as a server does: plural, singular or short, in any case, alone or with a group whose
// end may be cut off. A pattern may match any resource, and so may a name that other resources have too.
func resourceNamed(text string) resource {
	word, group, grouped := strings.Cut(text, ".")
	word = strings.ToLower(word)
	switch {
	case text == "*":
		return resource{name: text, doubt: true}
	case strings.ContainsAny(text, `*?[{\`), !grouped && slices.Contains(commonWords(), word):
		return resource{doubt: true}
	}
	for _, known := range builtInResources() {
		if !slices.Contains(known.words, word) {
			continue
		}
		name := known.words[0]
		if known.group != "" {
			name += "." + known.group
		}
		switch {
		case !grouped || group == known.group:
			return resource{name: name, group: known.group, known: true}
		case strings.HasPrefix(known.group, group), group == "extensions":
			return resource{doubt: true} // the group is cut off, or an old group that serves the same objects
		}
	}
	return resource{group: group}
}

// commonWords are short names of built-in resources that are also likely kinds of custom resources; without a group
// they mean the custom resource.
func commonWords() []string { return []string{"quota", "limits"} }

type builtIn struct {
	group string
	words []string // the plural first
}

// builtInResources are the resources of Kubernetes to which backups are usually limited. A name without a group means
// the resource listed here in every cluster, because the API server prefers its own resources.
func builtInResources() []builtIn {
	return []builtIn{
		{"", []string{"pods", "pod", "po"}},
		{"", []string{"configmaps", "configmap", "cm"}},
		{"", []string{"secrets", "secret"}},
		{"", []string{"services", "service", "svc"}},
		{"", []string{"serviceaccounts", "serviceaccount", "sa"}},
		{"", []string{"persistentvolumeclaims", "persistentvolumeclaim", "pvc"}},
		{"", []string{"persistentvolumes", "persistentvolume", "pv"}},
		{"", []string{"namespaces", "namespace", "ns"}},
		{"", []string{"endpoints", "ep"}},
		{"", []string{"limitranges", "limitrange", "limits"}},
		{"", []string{"resourcequotas", "resourcequota", "quota"}},
		{"", []string{"replicationcontrollers", "replicationcontroller", "rc"}},
		{"apps", []string{"deployments", "deployment", "deploy"}},
		{"apps", []string{"statefulsets", "statefulset", "sts"}},
		{"apps", []string{"daemonsets", "daemonset", "ds"}},
		{"apps", []string{"replicasets", "replicaset", "rs"}},
		{"batch", []string{"jobs", "job"}},
		{"batch", []string{"cronjobs", "cronjob", "cj"}},
		{"autoscaling", []string{"horizontalpodautoscalers", "horizontalpodautoscaler", "hpa"}},
		{"policy", []string{"poddisruptionbudgets", "poddisruptionbudget", "pdb"}},
		{"networking.k8s.io", []string{"ingresses", "ingress", "ing"}},
		{"networking.k8s.io", []string{"networkpolicies", "networkpolicy", "netpol"}},
		{"rbac.authorization.k8s.io", []string{"roles", "role"}},
		{"rbac.authorization.k8s.io", []string{"rolebindings", "rolebinding"}},
		{"rbac.authorization.k8s.io", []string{"clusterroles", "clusterrole"}},
		{"rbac.authorization.k8s.io", []string{"clusterrolebindings", "clusterrolebinding"}},
		{"storage.k8s.io", []string{"storageclasses", "storageclass", "sc"}},
		{"apiextensions.k8s.io", []string{"customresourcedefinitions", "customresourcedefinition", "crd", "crds"}},
	}
}
