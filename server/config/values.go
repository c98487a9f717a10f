package config

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/server/tracing"
	"github.com/cleat-dev/cleat/versioning/kinds"
)

// scalar reads a single value, as the type of into and tag say.
func scalar(node *yaml.Node, tag reflect.StructTag, into reflect.Value) error {
	if node.Kind != yaml.ScalarNode {
		return fmt.Errorf("is %s%s", describe(node), wanted(tag))
	}
	if node.ShortTag() == "!!null" {
		return fmt.Errorf("is empty%s; or leave the key out", wanted(tag))
	}
	switch {
	case into.Type() == reflect.TypeFor[time.Duration]() && tag.Get("none") != "" && node.Value == "none":
		into.SetInt(-1)
	case into.Type() == reflect.TypeFor[time.Duration]():
		return number(node.Value, tag, parseDuration, into)
	case into.Type() == reflect.TypeFor[Size]():
		return number(node.Value, tag, parseSize, into)
	case into.Kind() == reflect.Int:
		return number(node.Value, tag, parseInt, into)
	case into.Kind() == reflect.Bool:
		if node.ShortTag() != "!!bool" {
			return fmt.Errorf("is %s, want true or false", describe(node))
		}
		into.SetBool(strings.EqualFold(node.Value, "true"))
	case node.ShortTag() != "!!str":
		return fmt.Errorf("is %s, want text; put it in quotes", describe(node))
	default:
		into.SetString(node.Value)
		return text(node.Value, tag)
	}
	return nil
}

// text checks a text.
func text(value string, tag reflect.StructTag) error {
	if allowed := tag.Get("oneOf"); allowed != "" && !slices.Contains(strings.Split(allowed, ","), value) {
		return fmt.Errorf("is %q%s", clip(value), wanted(tag))
	}
	if value == "" && tag.Get("check") != "value" {
		return errors.New("is empty; give it a value, or leave the key out")
	}
	return checks(tag.Get("check"), value)
}

// wanted is ", want ..." for what has a list of allowed texts.
func wanted(tag reflect.StructTag) string {
	switch allowed := tag.Get("oneOf"); {
	case allowed == "":
		return ""
	case !strings.Contains(allowed, ","):
		return ", want " + allowed
	default:
		return ", want one of " + strings.ReplaceAll(allowed, ",", ", ")
	}
}

// number parses a value that is ordered, and keeps it within the limits of tag.
func number(value string, tag reflect.StructTag, parse func(string) (int64, error), into reflect.Value) error {
	n, err := parse(value)
	if err != nil && tag.Get("none") != "" {
		err = fmt.Errorf("%w, or none", err)
	}
	if err != nil {
		return err
	}
	into.SetInt(n)
	least := tag.Get("min")
	if least == "" && n <= 0 {
		return fmt.Errorf("is %s, want more than 0", value)
	}
	if limit, err := parse(least); err == nil && n < limit {
		return fmt.Errorf("is %s, want at least %s", value, least)
	}
	most := tag.Get("max")
	if limit, err := parse(most); err == nil && n > limit {
		return fmt.Errorf("is %s, want at most %s", value, most)
	}
	return nil
}

func parseDuration(value string) (int64, error) {
	d, err := time.ParseDuration(value)
	if err != nil {
		return 0, fmt.Errorf("is %q, want a duration such as 30s, 10m or 4h", clip(value))
	}
	return int64(d), nil
}

func parseInt(value string) (int64, error) {
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("is %q, want a whole number below %d", clip(value), math.MaxInt32)
	}
	return n, nil
}

var size = regexp.MustCompile(`^([0-9]{1,18})(|k|M|G|Ki|Mi|Gi)$`)

func parseSize(value string) (int64, error) {
	parts := size.FindStringSubmatch(value)
	if parts == nil {
		return 0, fmt.Errorf("is %q, want a number of bytes such as 1048576 or 256Mi", clip(value))
	}
	n, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil {
		return 0, err
	}
	unit := map[string]int64{"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}[parts[2]]
	if n > math.MaxInt64/unit {
		return 0, fmt.Errorf("is %q, which is more bytes than can be counted", value)
	}
	return n * unit, nil
}

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// checks are the rules that a tag can name.
func checks(rule, value string) error {
	switch {
	case strings.ContainsRune(value, 0):
		return errors.New("has a zero byte, which it cannot have")
	case rule == "plugin", rule == "order" && value != "*":
		return framework.ValidateName(value)
	case rule == "kind":
		return checkKind(value)
	case rule == "variable" && !variable.MatchString(value):
		return errors.New("is no name of an environment variable: want letters, digits and _, and no digit first")
	case rule == "endpoint":
		return tracing.CheckEndpoint(value)
	}
	return nil
}

// checkKind checks the name of a kind that can have a deadline; policies have theirs where they are named.
func checkKind(kind string) error {
	var known []string
	for _, k := range kinds.All() {
		if slices.Contains([]string{"QueueAdmission", "LoadSoothing", "ManifestWriter"}, k.Kind) {
			continue
		}
		if k.Kind == kind {
			return nil
		}
		if !slices.Contains(known, k.Kind) {
			known = append(known, k.Kind)
		}
	}
	return fmt.Errorf("is no kind of plugin that has a deadline here; known are %s", strings.Join(known, ", "))
}
