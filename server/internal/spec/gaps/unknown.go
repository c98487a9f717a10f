package gaps

import (
	"errors"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
)

// Unknown returns a warning for each field in the spec of an object that the server does not know: a newer version of
// Velero may have added it, and installed definitions with it. raw is the object as the API server sends it, and typed
// an empty object of the type that the server has for it. Other problems of the object are no concern of it.
func Unknown(raw map[string]any, typed runtime.Object) []string {
	var strict interface{ Errors() []error }
	err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(raw, typed, true)
	if !errors.As(err, &strict) {
		return nil
	}
	var warnings []string
	for _, err := range strict.Errors() {
		field, found := strings.CutPrefix(err.Error(), `unknown field "`)
		if field = strings.TrimSuffix(field, `"`); found && strings.HasPrefix(field, "spec.") {
			warnings = append(warnings, field+": this server does not know the field, so it has no effect")
		}
	}
	slices.Sort(warnings)
	return warnings
}
