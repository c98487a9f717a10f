package suite

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/cleat-dev/cleat/framework/conformance/internal/sample"
	"github.com/cleat-dev/cleat/framework/conformance/internal/wire"
)

// checkConfig checks that the caller has configured only plugins that are served.
func (s *Suite) checkConfig() error {
	known := map[string]bool{"": true}
	var names []string
	for _, one := range s.Served() {
		known[one.Kind], known[one.Name], known[one.Kind+"/"+one.Name] = true, true, true
		names = append(names, one.Kind+"/"+one.Name)
	}
	for _, address := range slices.Sorted(maps.Keys(s.Config)) {
		if !known[address] {
			return fmt.Errorf("%s serves no plugin %q to configure; it serves: %s", s.Target, address,
				strings.Join(slices.Sorted(slices.Values(names)), ", "))
		}
	}
	return nil
}

// Config returns the configuration of the plugin, or nil if there is none.
func (s *Subject) Config() map[string]string { return s.configOf(s.Kind, s.Name) }

// ConfigIsItsOwn reports whether the config was given for this plugin alone. Any other may be meant for a plugin of
// another kind.
func (s *Subject) ConfigIsItsOwn() bool {
	if s.Options.Config[s.Kind] != nil || s.Options.Config[s.Kind+"/"+s.Name] != nil {
		return true
	}
	return !slices.ContainsFunc(s.Plugins, func(other *Subject) bool {
		return other.Kind != s.Kind && (wire.OwnProcess(other.Kind) || wire.IsPolicy(other.Kind)) && other.Config() != nil
	})
}

// PolicyConfig returns the JSON config of a policy, and whether the caller has given one.
func (s *Subject) PolicyConfig() (config []byte, given bool, err error) {
	values := s.Config()
	if values == nil {
		return []byte("{}"), false, nil
	}
	object := map[string]any{}
	for key, text := range values {
		var value any
		if err := yaml.Unmarshal([]byte(text), &value); err != nil {
			return nil, true, fmt.Errorf("config %s=%s: %w", key, text, err)
		}
		object[key] = value
	}
	config = sample.Encode(object)
	if !s.ConfigIsItsOwn() && FitsSchema(s.Schema, config) != nil {
		return []byte("{}"), false, nil // it is meant for another kind
	}
	return config, true, nil
}
