package modifiers

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/cleat-dev/cleat/server/internal/kube/configmap"
)

// version is the only supported version of the document.
const version = "v1"

// These types describe the document, with Velero's names. The YAML may have any scalar where a field is a string.
type (
	document struct {
		Version               string         `json:"version"`
		ResourceModifierRules []ruleDocument `json:"resourceModifierRules"`
	}
	ruleDocument struct {
		Conditions       conditionsDocument `json:"conditions"`
		Patches          []operation        `json:"patches"`
		MergePatches     []patchDocument    `json:"mergePatches"`
		StrategicPatches []patchDocument    `json:"strategicPatches"`
	}
	conditionsDocument struct {
		Namespaces        []string              `json:"namespaces"`
		GroupResource     string                `json:"groupResource"`
		ResourceNameRegex string                `json:"resourceNameRegex"`
		LabelSelector     *metav1.LabelSelector `json:"labelSelector"`
		Matches           []match               `json:"matches"`
	}
	match struct {
		Path  string `json:"path"`
		Value string `json:"value"`
	}
	operation struct {
		Operation string `json:"operation"`
		From      string `json:"from"`
		Path      string `json:"path"`
		Value     string `json:"value"`
	}
	patchDocument struct {
		PatchData string `json:"patchData"`
	}
)

// Parse reads the rules in a ConfigMap. Its errors name the ConfigMap, the index of the rule, the field and what is
// expected there.
func Parse(cm *corev1.ConfigMap) (*Rules, error) {
	rules, err := parse(cm)
	if err != nil {
		return nil, fmt.Errorf("resource modifiers in config map %s/%s: %w", cm.Namespace, cm.Name, err)
	}
	return rules, nil
}

func parse(cm *corev1.ConfigMap) (*Rules, error) {
	text, err := configmap.Document(cm)
	if err != nil {
		return nil, err
	}
	doc, err := configmap.Decode[document](text)
	if err != nil {
		return nil, locate(text, err)
	}
	if !strings.EqualFold(doc.Version, version) {
		return nil, fmt.Errorf("version: %q is not supported, want %s", doc.Version, version)
	}
	if len(doc.ResourceModifierRules) == 0 {
		return nil, errors.New("resourceModifierRules: the list is empty, want at least one rule")
	}
	rules := &Rules{}
	for i, d := range doc.ResourceModifierRules {
		r := rule{name: fmt.Sprintf("resourceModifierRules[%d]", i), met: new(atomic.Bool)}
		if r.conditions, err = newConditions(d.Conditions); err != nil {
			return nil, fmt.Errorf("%s.conditions.%w", r.name, err)
		}
		if r.change, err = newChange(d); err != nil {
			return nil, fmt.Errorf("%s%w", r.name, err)
		}
		rules.list = append(rules.list, r)
	}
	return rules, nil
}

// locate adds the index of the rule to an error of decoding the document, if the error is in a rule.
func locate(text []byte, err error) error {
	var loose struct {
		ResourceModifierRules []any `json:"resourceModifierRules"`
	}
	if yaml.Unmarshal(text, &loose) != nil {
		return err
	}
	for i, r := range loose.ResourceModifierRules {
		again, marshalErr := yaml.Marshal(r)
		if marshalErr != nil {
			return err
		}
		if _, err := configmap.Decode[ruleDocument](again); err != nil {
			return fmt.Errorf("resourceModifierRules[%d]: %w", i, err)
		}
	}
	return err
}
