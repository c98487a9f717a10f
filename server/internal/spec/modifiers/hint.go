package modifiers

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
)

// explain adds to the error of a JSON patch what would be right, if an operation needs a field that the object does not
// have.
func explain(err error, list []operation, object []byte) error {
	if !errors.Is(err, jsonpatch.ErrMissing) {
		return err
	}
	failed, ok := firstFailing(list, object)
	if !ok {
		return err
	}
	patch, ok := failed.asMergePatch()
	if !ok {
		return fmt.Errorf("%w; a JSON patch does not create what its path leads through: add that before, or use "+
			"strategicPatches", err)
	}
	return fmt.Errorf("%w; a JSON patch needs what its path leads through, and mergePatches do not: use mergePatches: "+
		"[{patchData: '%s'}] instead", err, patch)
}

// firstFailing returns the first operation that cannot be applied after those before it.
func firstFailing(list []operation, object []byte) (operation, bool) {
	for i := range list {
		patch, err := newOperations(list[i : i+1])
		if err != nil {
			return operation{}, false
		}
		if object, err = applyOperations(patch, object); err != nil {
			return list[i], true
		}
	}
	return operation{}, false
}

// asMergePatch returns the JSON merge patch with the effect of an operation. Some operations have none, such as those
// on elements of lists.
func (op operation) asMergePatch() (patch string, ok bool) {
	var value any
	switch strings.ToLower(op.Operation) {
	case "add", "replace":
		value = json.RawMessage(jsonValue(op.Value))
	case "remove":
	default:
		return "", false
	}
	segments := strings.Split(op.Path, "/")[1:]
	if isText(segments) && value != nil && !strings.HasPrefix(jsonValue(op.Value), `"`) {
		value = op.Value // "3" means the number 3, which a label cannot have
	}
	for i := len(segments) - 1; i >= 0; i-- {
		if _, err := strconv.Atoi(segments[i]); err == nil || segments[i] == "-" {
			return "", false // an element of a list
		}
		value = map[string]any{strings.NewReplacer("~1", "/", "~0", "~").Replace(segments[i]): value}
	}
	text, err := json.Marshal(value)
	return string(text), err == nil
}

// isText reports whether a path leads to a label or an annotation.
func isText(segments []string) bool {
	return len(segments) == 3 && segments[0] == "metadata" && (segments[1] == "labels" || segments[1] == "annotations")
}
