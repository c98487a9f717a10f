// Package resourcepolicy reads resource policies. A resource policy is a document in a ConfigMap that several backups
// and restores can name in spec.resourcePolicy. Start with Parse; rules.go reads the filters per namespace and kind,
// and volumes.go the rules that choose for each volume how its data is backed up. The format is Velero's.
//
// The package imports the server's filter and configmap, and the types of Kubernetes.
package resourcepolicy

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/cleat-dev/cleat/server/internal/kube/configmap"
	"github.com/cleat-dev/cleat/server/internal/spec/filter"
)

// Policy is a valid resource policy.
type Policy struct {
	// Resources are filters for resources that the spec of a backup neither includes nor excludes. It is nil if the policy
	// has none.
	Resources *filter.ScopedLists
	// Rules are filters per namespace and kind.
	Rules filter.RuleLists
	// VolumePolicies choose how the data of volumes is backed up.
	VolumePolicies VolumePolicies
	// Warnings are about what has no effect.
	Warnings []string
}

// version is the only supported version of the document.
const version = "v1"

// These types describe the document, with Velero's names.
type (
	document struct {
		Version                   string            `json:"version"`
		VolumePolicies            []volumePolicy    `json:"volumePolicies"`
		IncludeExcludePolicy      *resourceLists    `json:"includeExcludePolicy"`
		ClusterScopedFilterPolicy *clusterFilters   `json:"clusterScopedFilterPolicy"`
		NamespacedFilterPolicies  []namespaceFilter `json:"namespacedFilterPolicies"`
	}
	resourceLists struct {
		IncludedClusterScopedResources   []string `json:"includedClusterScopedResources"`
		ExcludedClusterScopedResources   []string `json:"excludedClusterScopedResources"`
		IncludedNamespaceScopedResources []string `json:"includedNamespaceScopedResources"`
		ExcludedNamespaceScopedResources []string `json:"excludedNamespaceScopedResources"`
	}
	volumePolicy struct {
		Conditions volumeConditions `json:"conditions"`
		Action     volumeAction     `json:"action"`
	}
	volumeConditions struct {
		Capacity       string            `json:"capacity"` // "minimum,maximum"; either may be empty
		StorageClass   []string          `json:"storageClass"`
		NFS            *nfsVolume        `json:"nfs"`
		CSI            *csiVolume        `json:"csi"`
		VolumeTypes    []string          `json:"volumeTypes"`
		PVCLabels      map[string]string `json:"pvcLabels"`
		PVCPhase       []string          `json:"pvcPhase"`
		PVCVolumeMode  string            `json:"pvcVolumeMode"`
		PVCAccessModes []string          `json:"pvcAccessModes"`
	}
	nfsVolume struct {
		Server string `json:"server"`
		Path   string `json:"path"`
	}
	csiVolume struct {
		Driver           string            `json:"driver"`
		VolumeAttributes map[string]string `json:"volumeAttributes"`
	}
	volumeAction struct {
		Type       string         `json:"type"`
		Parameters map[string]any `json:"parameters"`
	}
)

// Parse reads the policy in a ConfigMap. Its errors name the ConfigMap, the field and what is expected there.
func Parse(cm *corev1.ConfigMap) (*Policy, error) {
	policy, err := parse(cm)
	if err != nil {
		return nil, fmt.Errorf("resource policy in config map %s/%s: %w", cm.Namespace, cm.Name, err)
	}
	return policy, nil
}

// ParseForRestore reads the policy of a restore, which can only have filters per namespace and kind.
func ParseForRestore(cm *corev1.ConfigMap) (*Policy, error) {
	policy, err := parse(cm)
	switch {
	case err != nil:
	case len(policy.VolumePolicies) > 0:
		err = errors.New("volumePolicies: they are for backups; remove them from the policy of a restore")
	case policy.Resources != nil:
		err = errors.New("includeExcludePolicy: it is for backups; use namespacedFilterPolicies and " +
			"clusterScopedFilterPolicy, or the lists of the restore's spec")
	}
	if err != nil {
		return nil, fmt.Errorf("resource policy in config map %s/%s: %w", cm.Namespace, cm.Name, err)
	}
	return policy, nil
}

func parse(cm *corev1.ConfigMap) (*Policy, error) {
	text, err := configmap.Document(cm)
	if err != nil {
		return nil, err
	}
	doc, err := configmap.Decode[document](text)
	if err != nil {
		return nil, err
	}
	if doc.Version != version {
		return nil, fmt.Errorf("version: %q is not supported, want %s", doc.Version, version)
	}
	policy := new(Policy)
	for i, p := range doc.VolumePolicies {
		rule, err := p.policy()
		if err != nil {
			return nil, fmt.Errorf("volumePolicies[%d].%w", i, err)
		}
		policy.VolumePolicies = append(policy.VolumePolicies, rule)
		for _, name := range p.unknownParameters() {
			policy.Warnings = append(policy.Warnings, fmt.Sprintf("resource policy in config map %s/%s: "+
				"volumePolicies[%d].action.parameters.%s: action %s has no such parameter, so it has no effect", cm.Namespace,
				cm.Name, i, name, p.Action.Type))
		}
	}
	if policy.Rules, err = doc.rules(); err != nil {
		return nil, err
	}
	if lists := doc.IncludeExcludePolicy; lists != nil {
		if err := lists.check(); err != nil {
			return nil, fmt.Errorf("includeExcludePolicy.%w", err)
		}
		policy.Resources = &filter.ScopedLists{
			IncludedClusterScoped: lists.IncludedClusterScopedResources,
			ExcludedClusterScoped: lists.ExcludedClusterScopedResources,
			IncludedNamespaced:    lists.IncludedNamespaceScopedResources,
			ExcludedNamespaced:    lists.ExcludedNamespaceScopedResources,
		}
	}
	return policy, nil
}

// check validates the lists. Its errors begin with the name of the field.
func (l *resourceLists) check() error {
	for _, pair := range []struct {
		scope              string
		includes, excludes []string
	}{
		{"ClusterScopedResources", l.IncludedClusterScopedResources, l.ExcludedClusterScopedResources},
		{"NamespaceScopedResources", l.IncludedNamespaceScopedResources, l.ExcludedNamespaceScopedResources},
	} {
		for _, list := range []struct {
			field string
			names []string
		}{{"included", pair.includes}, {"excluded", pair.excludes}} {
			if slices.Contains(list.names, "*") {
				return fmt.Errorf("%s%s: * is not allowed in a policy, want names of resources or other patterns", list.field,
					pair.scope)
			}
			if _, err := filter.NewNames(list.names, nil); err != nil {
				return fmt.Errorf("%s%s: %w", list.field, pair.scope, errors.Unwrap(err))
			}
		}
		for _, name := range pair.excludes {
			if slices.Contains(pair.includes, name) {
				return fmt.Errorf("excluded%s: %s is also in included%s, want it in only one of them", pair.scope, name, pair.scope)
			}
		}
	}
	return nil
}
