package validation

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/cleat-dev/cleat/server/internal/spec/filter"
)

// CheckLists returns the problems of a list of included and a list of excluded names.
func CheckLists(includes, excludes []string) []string {
	var problems []string
	if len(slices.Compact(slices.Sorted(slices.Values(includes)))) > 1 && slices.Contains(includes, "*") {
		problems = append(problems, "includes list must either contain '*' only, or a non-empty list of items")
	}
	if slices.Contains(excludes, "*") {
		problems = append(problems, "excludes list cannot contain '*'")
	}
	return append(problems, checkBoth(includes, excludes)...)
}

// CheckScopedLists returns the problems of the lists for one scope, which may exclude everything.
func CheckScopedLists(includes, excludes []string) []string {
	var problems []string
	if len(slices.Compact(slices.Sorted(slices.Values(includes)))) > 1 && slices.Contains(includes, "*") {
		problems = append(problems, "includes list must either contain '*' only, or a non-empty list of items")
	}
	if len(slices.Compact(slices.Sorted(slices.Values(excludes)))) > 1 && slices.Contains(excludes, "*") {
		problems = append(problems, "excludes list must either contain '*' only, or a non-empty list of items")
	}
	if len(includes) > 0 && slices.Contains(excludes, "*") {
		problems = append(problems, "when exclude is '*', include cannot have value")
	}
	return append(problems, checkBoth(includes, excludes)...)
}

func checkBoth(includes, excludes []string) []string {
	var problems []string
	for _, name := range slices.Compact(slices.Sorted(slices.Values(excludes))) {
		if name != "*" && slices.Contains(includes, name) {
			problems = append(problems, "excludes list cannot contain an item in the includes list: "+name)
		}
	}
	return problems
}

// CheckNamespaceNames returns a problem for each string that is neither the name of a namespace nor a pattern.
func CheckNamespaceNames(lists ...[]string) []string {
	var problems []string
	for _, name := range slices.Concat(lists...) {
		if name == "" {
			continue // clients write it for "no namespace"
		}
		if err := filter.CheckNamespacePattern(name); err != nil {
			problems = append(problems, err.Error())
			continue
		}
		plain := strings.NewReplacer("*", "x", "?", "x", "[", "x", "]", "x").Replace(name)
		for _, problem := range validation.IsDNS1123Label(plain) {
			problems = append(problems, fmt.Sprintf("invalid namespace %q: %s", name, problem))
		}
	}
	return problems
}

// CheckSelectors returns the problems of labelSelector and orLabelSelectors.
func CheckSelectors(one *metav1.LabelSelector, alternatives []*metav1.LabelSelector) []string {
	var problems []string
	if one != nil && len(alternatives) > 0 {
		problems = append(problems, "encountered labelSelector as well as orLabelSelectors, only one can be specified")
	}
	if _, err := metav1.LabelSelectorAsSelector(one); err != nil {
		problems = append(problems, fmt.Sprintf("invalid labelSelector: %v", err))
	}
	for i, selector := range alternatives {
		if _, err := metav1.LabelSelectorAsSelector(selector); err != nil {
			problems = append(problems, fmt.Sprintf("invalid orLabelSelectors[%d]: %v", i, err))
		}
	}
	return problems
}

// Prefixed returns the texts with a prefix.
func Prefixed(prefix string, texts []string) []string {
	out := make([]string, len(texts))
	for i, text := range texts {
		out[i] = prefix + text
	}
	return out
}
