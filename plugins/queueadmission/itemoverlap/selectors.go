package itemoverlap

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// selectorsApart reports whether certainly no labels match a selector of a and a selector of b. An empty list matches
// everything.
func selectorsApart(a, b []metav1.LabelSelector) bool {
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	for i := range a {
		for j := range b {
			if !contradict(requirements(&a[i]), requirements(&b[j])) {
				return false
			}
		}
	}
	return true
}

// requirement is the requirement of a selector for one label: a value in the list in, no value in the list out, or with
// absent that the label does not exist.
type requirement struct {
	key    string
	in     []string // nil allows any value
	out    []string
	absent bool // the label must not exist
	some   bool // the label must exist
}

func requirements(selector *metav1.LabelSelector) []requirement {
	var all []requirement
	for key, value := range selector.MatchLabels {
		all = append(all, requirement{key: key, in: []string{value}, some: true})
	}
	for _, expression := range selector.MatchExpressions {
		one := requirement{key: expression.Key}
		switch expression.Operator {
		case metav1.LabelSelectorOpIn:
			one.in, one.some = expression.Values, true
		case metav1.LabelSelectorOpNotIn:
			one.out = expression.Values
		case metav1.LabelSelectorOpExists:
			one.some = true
		case metav1.LabelSelectorOpDoesNotExist:
			one.absent = true
		default:
			continue // an unknown operator restricts nothing
		}
		all = append(all, one)
	}
	return all
}

// contradict reports whether no labels satisfy both.
func contradict(a, b []requirement) bool {
	for _, one := range a {
		for _, other := range b {
			if one.key == other.key && one.contradicts(other) {
				return true
			}
		}
	}
	return false
}

func (r requirement) contradicts(other requirement) bool {
	if r.some && other.absent || r.absent && other.some {
		return true
	}
	return none(r.in, other) || none(other.in, r)
}

// none reports whether none of values satisfies another requirement.
func none(values []string, other requirement) bool {
	if values == nil {
		return false
	}
	return !slices.ContainsFunc(values, func(value string) bool {
		return (other.in == nil || slices.Contains(other.in, value)) && !slices.Contains(other.out, value)
	})
}
