package command

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// optionalBool is a boolean flag that stays nil unless it is given.
type optionalBool struct{ target **bool }

func (o optionalBool) Set(text string) error {
	value, err := strconv.ParseBool(text)
	if err != nil {
		return fmt.Errorf("%q: want true or false", text)
	}
	*o.target = &value
	return nil
}

func (o optionalBool) String() string {
	if o.target == nil || *o.target == nil {
		return ""
	}
	return strconv.FormatBool(**o.target)
}

func (o optionalBool) Type() string { return "true|false" }

// AddOptionalBool adds a boolean flag. target stays nil unless the flag is given.
func AddOptionalBool(flags *pflag.FlagSet, target **bool, name, usage string) {
	flags.Var(optionalBool{target}, name, usage)
	flags.Lookup(name).NoOptDefVal = "true"
}

// LabelSelectors are the flags --selector and --or-selector.
type LabelSelectors struct{ one, alternatives string }

// Add adds the flags.
func (s *LabelSelectors) Add(flags *pflag.FlagSet) {
	flags.StringVarP(&s.one, "selector", "l", "", "only objects whose labels match, e.g. a=b,c!=d")
	flags.StringVar(&s.alternatives, "or-selector", "", `only objects whose labels match one of several selectors, e.g. "a=b or c=d"`)
}

// Parse returns the selectors as a spec holds them.
func (s *LabelSelectors) Parse() (*metav1.LabelSelector, []*metav1.LabelSelector, error) {
	if s.one != "" && s.alternatives != "" {
		return nil, nil, errors.New("--selector and --or-selector cannot be used together")
	}
	var one *metav1.LabelSelector
	if s.one != "" {
		selector, err := metav1.ParseToLabelSelector(s.one)
		if err != nil {
			return nil, nil, fmt.Errorf("--selector: %w", err)
		}
		one = selector
	}
	var alternatives []*metav1.LabelSelector
	if s.alternatives != "" {
		for text := range strings.SplitSeq(s.alternatives, " or ") {
			selector, err := metav1.ParseToLabelSelector(strings.TrimSpace(text))
			if err != nil {
				return nil, nil, fmt.Errorf("--or-selector: %w", err)
			}
			alternatives = append(alternatives, selector)
		}
	}
	return one, alternatives, nil
}

var _ pflag.Value = optionalBool{}
