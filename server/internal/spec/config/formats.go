package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cleat-dev/cleat/framework/hostapi"
	"github.com/cleat-dev/cleat/framework/hostenv"
	"github.com/cleat-dev/cleat/server/internal/kube/tracing"
	"github.com/cleat-dev/cleat/versioning/kinds"
)

// formats returns the formats that the schema of the file uses.
func formats() []*jsonschema.Format {
	duration := func(least time.Duration, none bool) func(string) error {
		return func(text string) error {
			if d, err := parseDuration(text); err != nil || d < Duration(least) && (!none || d != None) {
				return errors.New("is not a duration in the limits")
			}
			return nil
		}
	}
	size := func(least, most int64) func(string) error {
		return func(text string) error {
			if n, err := parseSize(text); err != nil || n < Size(least) || n > Size(most) {
				return errors.New("is not a size in the limits")
			}
			return nil
		}
	}
	var all []*jsonschema.Format
	for name, check := range map[string]func(string) error{
		"duration":         duration(time.Millisecond, false),
		"duration-or-none": duration(time.Millisecond, true),
		"start-deadline":   duration(100*time.Millisecond, true),
		"rescan-interval":  duration(time.Second, true),
		"message-size":     size(4<<20, 2047<<20),
		"memory-size":      size(256<<20, math.MaxInt64),
		"plugin-name":      hostapi.ValidateName,
		"quantity": func(text string) error {
			if q, err := resource.ParseQuantity(text); err != nil || q.Sign() <= 0 {
				return errors.New("is not a quantity greater than 0")
			}
			return nil
		},
		"plugin-name-or-star": func(text string) error {
			if text == "*" {
				return nil
			}
			return hostapi.ValidateName(text)
		},
		"endpoint": tracing.CheckEndpoint,
		"secret-key": func(text string) error {
			if name, key, ok := strings.Cut(text, "/"); !ok || name == "" || key == "" || strings.Contains(key, "/") {
				return errors.New("is not NAME/KEY")
			}
			return nil
		},
		"moment": func(text string) error {
			_, err := time.Parse(time.RFC3339, text)
			return err
		},
		"kms-key": func(text string) error {
			if name, key, ok := strings.Cut(text, "://"); !ok || name == "" || key == "" {
				return errors.New("is not NAME://KEY")
			}
			return nil
		},
		"environment": func(text string) error {
			if rule := hostenv.Rule(text); rule != hostenv.Complete && rule != hostenv.Strict {
				return errors.New("is not a rule about the environment")
			}
			return nil
		},
		"text": func(text string) error {
			if strings.ContainsRune(text, 0) {
				return errors.New("has a zero byte, which it cannot have")
			}
			return nil
		},
	} {
		all = append(all, &jsonschema.Format{Name: name, Validate: func(value any) error {
			switch value := value.(type) {
			case string:
				return check(value)
			case json.Number:
				return check(value.String())
			default:
				return nil
			}
		}})
	}
	return all
}

// checkKind returns an error unless kind is a kind of plugin that can have a deadline. Policies have their deadlines
// where they are configured.
func checkKind(kind string) error {
	var known []string
	for _, k := range kinds.All() {
		if k.Policy {
			continue
		}
		if k.Kind == kind {
			return nil
		}
		if !slices.Contains(known, k.Kind) {
			known = append(known, k.Kind)
		}
	}
	return fmt.Errorf("is not a kind of plugin that has a deadline here; known are %s", strings.Join(known, ", "))
}

// Duration is a time.Duration that the file has as "30s", or as "none" for no limit.
type Duration time.Duration

// None is the duration "none". It is negative, as is every duration that means no limit.
const None Duration = -1

// Std returns the duration as a time.Duration.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// UnmarshalYAML implements yaml.Unmarshaler.
func (d *Duration) UnmarshalYAML(node *yaml.Node) (err error) {
	*d, err = parseDuration(node.Value)
	return err
}

func parseDuration(text string) (Duration, error) {
	if text == "none" {
		return None, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, err
	}
	if d < 0 {
		return 0, fmt.Errorf("%s is negative", text)
	}
	return Duration(d), nil
}

// Environment is which variables plugins get of the server's environment.
type Environment struct {
	rule      hostenv.Rule
	variables map[string]string // of a file that has an object here: earlier files had Plugins.Variables at this place
}

// Rule returns the rule that the file names; empty for the default.
func (e Environment) Rule() hostenv.Rule { return e.rule }

// UnmarshalYAML implements yaml.Unmarshaler.
func (e *Environment) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind == yaml.MappingNode {
		return node.Decode(&e.variables)
	}
	return node.Decode(&e.rule)
}

// Size is a number of bytes, which the file may have with a unit: "256Mi".
type Size int64

// UnmarshalYAML implements yaml.Unmarshaler.
func (s *Size) UnmarshalYAML(node *yaml.Node) (err error) {
	if node.ShortTag() == "!!int" {
		return node.Decode((*int64)(s))
	}
	*s, err = parseSize(node.Value)
	return err
}

func parseSize(text string) (Size, error) {
	quantity, err := resource.ParseQuantity(text)
	return Size(quantity.Value()), err
}
