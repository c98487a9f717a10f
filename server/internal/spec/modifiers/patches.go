package modifiers

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/cleat-dev/cleat/server/internal/kube/configmap"
	"github.com/cleat-dev/cleat/server/internal/kube/item"
)

// change returns a changed copy of an object, both as JSON. It is safe for concurrent use.
type change func(object []byte) ([]byte, error)

// newChange compiles the patches of a rule. Its errors begin with the path of the field in the rule.
func newChange(d ruleDocument) (change, error) {
	var given []string
	for name, n := range map[string]int{"patches": len(d.Patches), "mergePatches": len(d.MergePatches),
		"strategicPatches": len(d.StrategicPatches)} {
		if n > 0 {
			given = append(given, name)
		}
	}
	slices.Sort(given)
	if len(given) != 1 {
		found := "no patches"
		if len(given) > 0 {
			found = strings.Join(given, " and ")
		}
		return nil, fmt.Errorf(": it has %s, want exactly one of patches, mergePatches and strategicPatches", found)
	}
	switch given[0] {
	case "patches":
		return newJSONPatch(d.Patches)
	case "mergePatches":
		return newMergePatches(d.MergePatches)
	default:
		return newStrategicPatches(d.StrategicPatches)
	}
}

// opTest is the operation that compares a value and cancels the others if it differs.
const opTest = "test"

// operations returns the operations of a JSON patch, RFC 6902.
func operations() []string { return []string{"add", "remove", "replace", "move", "copy", opTest} }

// maxObject is the maximum number of bytes of an object after a patch, and of the values that the "copy" operations of
// a rule may add to it. It is the size of the largest request of an API server.
const maxObject = 3 << 20

func newJSONPatch(list []operation) (change, error) {
	for i, op := range list {
		if err := op.check(); err != nil {
			return nil, fmt.Errorf(".patches[%d].%w", i, err)
		}
	}
	patch, err := newOperations(list)
	if err != nil {
		return nil, fmt.Errorf(".patches: %w", err)
	}
	return func(object []byte) ([]byte, error) {
		changed, err := applyOperations(patch, object)
		return changed, explain(err, list, object)
	}, nil
}

// check validates an operation. Its errors begin with the name of the field.
func (op operation) check() error {
	kind := strings.ToLower(op.Operation)
	switch {
	case kind == "":
		return fmt.Errorf("operation: it is missing, want one of %s", strings.Join(operations(), ", "))
	case !slices.Contains(operations(), kind):
		return fmt.Errorf("operation: %q is not supported, want one of %s", op.Operation, strings.Join(operations(), ", "))
	}
	if err := checkPointer("path", op.Path); err != nil {
		return err
	}
	switch kind {
	case "move", "copy":
		return checkPointer("from", op.From)
	case "remove":
		return nil
	}
	var parsed json.RawMessage
	if err := json.Unmarshal([]byte(jsonValue(op.Value)), &parsed); err != nil {
		return fmt.Errorf(`value: %q means the JSON %s, which is not valid: %w; escape quotes, backslashes and line breaks inside a string with a backslash, `+
			`and put a string that looks like a number, true, false, null, a list or an object into double quotes`, op.Value,
			jsonValue(op.Value), err)
	}
	return nil
}

func checkPointer(field, pointer string) error {
	switch {
	case pointer == "":
		return fmt.Errorf("%s: it is missing, want a JSON pointer such as /spec/replicas", field)
	case pointer[0] != '/':
		return fmt.Errorf("%s: %q is not a JSON pointer, want one that begins with a slash, such as /spec/replicas", field,
			pointer)
	}
	return nil
}

// jsonValue returns the JSON that a value means. Values are strings, so their form decides, as in Velero: null,
// booleans, numbers, lists, objects and quoted strings are used as they are, and everything else is put into quotes.
func jsonValue(value string) string {
	_, notNumber := strconv.ParseFloat(value, 64)
	switch {
	case len(value) >= 2 && strings.HasPrefix(value, `"`) && strings.HasSuffix(value, `"`),
		value == "null", strings.EqualFold(value, "true"), strings.EqualFold(value, "false"),
		strings.HasPrefix(value, "{"), strings.HasPrefix(value, "["), notNumber == nil:
		return value
	case value == `"`:
		return `""`
	}
	return `"` + value + `"`
}

// newOperations returns the JSON patch with the given operations, which must be valid.
func newOperations(list []operation) (jsonpatch.Patch, error) {
	type wire struct {
		Op    string          `json:"op"`
		Path  string          `json:"path"`
		From  string          `json:"from,omitempty"`
		Value json.RawMessage `json:"value,omitempty"`
	}
	out := make([]wire, len(list))
	for i, op := range list {
		out[i] = wire{Op: strings.ToLower(op.Operation), Path: op.Path}
		switch out[i].Op {
		case "move", "copy":
			out[i].From = op.From
		case "remove":
		default:
			out[i].Value = json.RawMessage(jsonValue(op.Value))
		}
	}
	text, err := json.Marshal(out)
	if err != nil {
		return nil, err
	}
	return jsonpatch.DecodePatch(text)
}

func applyOperations(patch jsonpatch.Patch, object []byte) ([]byte, error) {
	options := jsonpatch.NewApplyOptions()
	options.AccumulatedCopySizeLimit = maxObject
	options.EscapeHTML = false
	return recovering(func() ([]byte, error) { return patch.ApplyWithOptions(object, options) })
}

func newMergePatches(list []patchDocument) (change, error) {
	patches, err := patchData("mergePatches", list)
	if err != nil {
		return nil, err
	}
	return func(object []byte) ([]byte, error) {
		return applyAll(patches, object, jsonpatch.MergePatch)
	}, nil
}

func newStrategicPatches(list []patchDocument) (change, error) {
	patches, err := patchData("strategicPatches", list)
	if err != nil {
		return nil, err
	}
	types := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(types); err != nil {
		return nil, fmt.Errorf(": load the types of Kubernetes: %w", err)
	}
	return func(object []byte) ([]byte, error) {
		meta, err := item.ParseMeta(object)
		if err != nil {
			return nil, err
		}
		kind := runtime.TypeMeta{APIVersion: meta.APIVersion, Kind: meta.Kind}
		example, err := types.New(kind.GroupVersionKind())
		if err != nil {
			return nil, fmt.Errorf("%s %s is not a built-in type of Kubernetes, so it is not known how its lists are merged; "+
				"use mergePatches or patches", meta.APIVersion, meta.Kind)
		}
		return applyAll(patches, object, func(object, patch []byte) ([]byte, error) {
			return strategicpatch.StrategicMergePatch(object, patch, example)
		})
	}, nil
}

// patchData returns the patches of a list as JSON objects.
func patchData(field string, list []patchDocument) ([][]byte, error) {
	var patches [][]byte
	for i, d := range list {
		patch, err := configmap.JSON([]byte(d.PatchData))
		if err != nil {
			return nil, fmt.Errorf(".%s[%d].patchData: %w", field, i, err)
		}
		var object map[string]json.RawMessage
		if json.Unmarshal(patch, &object) != nil || object == nil {
			return nil, fmt.Errorf(".%s[%d].patchData: want a part of an object, such as {metadata: {labels: {a: b}}}", field, i)
		}
		patches = append(patches, patch)
	}
	return patches, nil
}

// applyAll applies patches one after the other.
func applyAll(patches [][]byte, object []byte, apply func(object, patch []byte) ([]byte, error)) ([]byte, error) {
	for i, patch := range patches {
		changed, err := recovering(func() ([]byte, error) { return apply(object, patch) })
		if err == nil {
			err = checkSize(changed)
		}
		if err != nil {
			return nil, fmt.Errorf("patch %d of %d: %w", i+1, len(patches), err)
		}
		object = changed
	}
	return object, nil
}

// checkSize returns an error if a changed object is too large.
func checkSize(changed []byte) error {
	if len(changed) > maxObject {
		return fmt.Errorf("the object would have %d bytes, which is larger than the %d that an API server takes; copy or "+
			"add less", len(changed), maxObject)
	}
	return nil
}

// recovering calls apply and returns an error if it panics. The patch libraries panic for some combinations of null and
// lists.
func recovering(apply func() ([]byte, error)) (out []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errPanic, p)
		}
	}()
	return apply()
}

// errPanic is returned for a patch that makes the library panic.
var errPanic = errors.New("the patch cannot be applied to the object")
