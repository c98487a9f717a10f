package filter

import (
	"errors"
	"fmt"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Selectors are the label selectors of a spec. An object must match one of them. They record which of them have
// matched. Selectors are safe for concurrent use; nil and an empty list match every object.
type Selectors struct{ list []selector }

type selector struct {
	labels.Selector
	matched atomic.Bool
}

// NewSelectors parses labelSelector and orLabelSelectors. A spec may have only one of them.
func NewSelectors(one *metav1.LabelSelector, several []*metav1.LabelSelector) (*Selectors, error) {
	if one != nil && len(several) > 0 {
		return nil, errors.New("labelSelector and orLabelSelectors cannot be used together")
	}
	if one != nil {
		several = []*metav1.LabelSelector{one}
	}
	s := &Selectors{list: make([]selector, len(several))}
	for i, text := range several {
		parsed, err := metav1.LabelSelectorAsSelector(text)
		if err != nil {
			return nil, fmt.Errorf("label selector: %w", err)
		}
		s.list[i].Selector = parsed
	}
	return s, nil
}

// Any reports whether there are selectors.
func (s *Selectors) Any() bool { return s != nil && len(s.list) > 0 }

// Texts returns the selectors in the form that the API server accepts.
func (s *Selectors) Texts() []string {
	return s.texts(func(*selector) bool { return true })
}

// Unmatched returns the selectors that have matched no object so far.
func (s *Selectors) Unmatched() []string {
	return s.texts(func(one *selector) bool { return !one.matched.Load() })
}

// Matched records that the API server has applied a selector of Texts and found an object.
func (s *Selectors) Matched(text string) {
	for i := 0; s != nil && i < len(s.list); i++ {
		if s.list[i].String() == text {
			s.list[i].matched.Store(true)
		}
	}
}

func (s *Selectors) texts(of func(*selector) bool) []string {
	var texts []string
	for i := 0; s != nil && i < len(s.list); i++ {
		if of(&s.list[i]) {
			texts = append(texts, s.list[i].String())
		}
	}
	return texts
}

// Match reports whether an object with these labels matches a selector, or there is none.
func (s *Selectors) Match(objectLabels map[string]string) bool {
	matches := !s.Any()
	for i := 0; s != nil && i < len(s.list); i++ {
		one := &s.list[i]
		known := one.matched.Load()
		if matches && known || !one.Matches(labels.Set(objectLabels)) {
			continue
		}
		matches = true
		if !known {
			one.matched.Store(true)
		}
	}
	return matches
}
