package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// pairs is a flag of the form KEY:VALUE,KEY:VALUE,... that may be given more than once.
type pairs struct{ target *map[string]string }

var _ pflag.Value = pairs{}

// NewPairs returns a flag value of the form KEY:VALUE,KEY:VALUE,... that adds to target.
func NewPairs(target *map[string]string) pflag.Value { return pairs{target: target} }

// Set implements pflag.Value: it adds the pairs in text.
func (p pairs) Set(text string) error {
	if *p.target == nil {
		*p.target = make(map[string]string)
	}
	for pair := range strings.SplitSeq(text, ",") {
		key, value, ok := strings.Cut(pair, ":")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if !ok || key == "" || value == "" {
			return fmt.Errorf("%q: want KEY:VALUE,KEY:VALUE,", pair)
		}
		(*p.target)[key] = value
	}
	return nil
}

func (p pairs) String() string {
	if p.target == nil {
		return ""
	}
	var out []string
	for _, key := range slices.Sorted(maps.Keys(*p.target)) {
		out = append(out, key+":"+(*p.target)[key])
	}
	return strings.Join(out, ",")
}

// Type implements pflag.Value: it names the form in the help.
func (p pairs) Type() string { return "key:value,..." }
