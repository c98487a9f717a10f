package command

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/cleat-dev/cleat/server/internal/spec/config"
)

// FlagError is an error about the value of a flag.
type FlagError struct {
	Flag string
	Err  error
}

// Error implements error.
func (e *FlagError) Error() string { return "--" + e.Flag + ": " + e.Err.Error() }

// Unwrap returns the error without the name of the flag.
func (e *FlagError) Unwrap() error { return e.Err }

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

// once is a flag that has one value, although it looks as if it could have several. To give another is an error: the
// flags of pflag drop the one before.
type once struct {
	target  *string
	instead func(former, text string) string // what would be right
}

func (o once) Set(text string) error {
	if former := *o.target; former != "" && former != text {
		return fmt.Errorf("it was given before, with %q, and has one value; %s", former, o.instead(former, text))
	}
	*o.target = text
	return nil
}

func (o once) String() string {
	if o.target == nil {
		return ""
	}
	return *o.target
}

func (o once) Type() string { return "string" }

// AddOnce adds a flag that has one value and may not be given with two. instead describes the alternative for several
// values.
func AddOnce(flags *pflag.FlagSet, target *string, name, usage, instead string) {
	flags.Var(once{target, func(string, string) string { return instead }}, name, usage)
}

// AddSelector adds the flag --selector of a command that selects objects of the server.
func AddSelector(flags *pflag.FlagSet, target *string, usage string) {
	flags.VarP(once{target, func(former, text string) string {
		return fmt.Sprintf("for those that match both, write --selector %q, and for several values of a label %q", former+","+
			text, "app in (web,nginx)")
	}}, "selector", "l", usage)
}

// LabelSelectors are the flags --selector and --or-selector.
type LabelSelectors struct{ one, alternatives string }

// Add adds the flags.
func (s *LabelSelectors) Add(flags *pflag.FlagSet) {
	flags.VarP(once{&s.one, eitherOrBoth}, "selector", "l", `only objects whose labels match, e.g. "a=b,c in (d,e)"`)
	flags.Var(once{&s.alternatives, either}, "or-selector",
		`only objects whose labels match one of several selectors, e.g. "a=b or c=d"`)
}

func eitherOrBoth(former, text string) string {
	return fmt.Sprintf("for objects that match both, write --selector %q; for those that match one of them, %s",
		former+","+text, either(former, text))
}

func either(former, text string) string {
	advice := fmt.Sprintf("write --or-selector %q", former+" or "+text)
	if in, ok := oneOfValues(former + "," + text); ok {
		advice += fmt.Sprintf(", or --selector %q", in)
	}
	return advice
}

// oneOfValues returns the selector for objects whose label has one of the values that a selector demands all of; ok is
// false if the selector does not demand several values of one label.
func oneOfValues(text string) (in string, ok bool) {
	requirements, err := labels.ParseToRequirements(text)
	if err != nil {
		return "", false
	}
	values := map[string][]string{}
	for _, r := range requirements {
		if op := r.Operator(); op != selection.Equals && op != selection.DoubleEquals {
			continue
		}
		for _, value := range r.Values().UnsortedList() {
			if !slices.Contains(values[r.Key()], value) {
				values[r.Key()] = append(values[r.Key()], value)
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if len(values[key]) > 1 {
			return fmt.Sprintf("%s in (%s)", key, strings.Join(values[key], ",")), true
		}
	}
	return "", false
}

// parseSelector parses a selector as a spec holds it. Such a selector has one value for each label, so another one
// would be dropped.
func parseSelector(text string) (*metav1.LabelSelector, error) {
	if in, several := oneOfValues(text); several {
		return nil, fmt.Errorf("%q: no object has two values of a label; for objects that have one of them, write "+
			"--selector %q, or --or-selector with %q between selectors", text, in, " or ")
	}
	return metav1.ParseToLabelSelector(text)
}

// Parse returns the selectors as a spec holds them.
func (s *LabelSelectors) Parse() (*metav1.LabelSelector, []*metav1.LabelSelector, error) {
	if s.one != "" && s.alternatives != "" {
		return nil, nil, errors.New("--selector and --or-selector cannot be used together")
	}
	var one *metav1.LabelSelector
	if s.one != "" {
		selector, err := parseSelector(s.one)
		if err != nil {
			return nil, nil, &FlagError{"selector", err}
		}
		one = selector
	}
	var alternatives []*metav1.LabelSelector
	if s.alternatives != "" {
		for text := range strings.SplitSeq(s.alternatives, " or ") {
			selector, err := parseSelector(strings.TrimSpace(text))
			if err != nil {
				return nil, nil, &FlagError{"or-selector", err}
			}
			alternatives = append(alternatives, selector)
		}
	}
	return one, alternatives, nil
}

// mappings is a flag of the form FROM:TO,... that may be given more than once, but with one value for each key.
type mappings struct {
	pflag.Value
	target *map[string]string
}

// NewMappings returns a flag value of the form FROM:TO,FROM:TO,... that adds to target. A second value for a key is an
// error.
func NewMappings(target *map[string]string) pflag.Value {
	return mappings{config.NewPairs(target), target}
}

func (m mappings) Set(text string) error {
	for pair := range strings.SplitSeq(text, ",") {
		if from, to, ok := strings.Cut(pair, ":"); !ok || strings.TrimSpace(from) == "" || strings.TrimSpace(to) == "" {
			return fmt.Errorf("%q: want FROM:TO, with commas between several", pair)
		}
		before := maps.Clone(*m.target)
		if err := m.Value.Set(pair); err != nil {
			return err
		}
		for from, to := range before {
			if other := (*m.target)[from]; other != to {
				return fmt.Errorf("%s is mapped to %s and to %s, want one of them; what has to be restored twice needs two "+
					"restores", from, to, other)
			}
		}
	}
	return nil
}

var (
	_ pflag.Value = once{}
	_ pflag.Value = mappings{}
	_ pflag.Value = optionalBool{}
)
