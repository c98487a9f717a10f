package kubeapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
)

// ErrInvalidName is returned for a name that no object can have, for which no request is sent.
var ErrInvalidName = errors.New("invalid name")

// CheckName returns an error unless name, for example from a field of a spec, can be the name of an object: a
// namespace, a node, or a custom resource. Such a name is one segment of a path.
func CheckName(field, name string) error {
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return fmt.Errorf("%s %q: %w: %s", field, shortName(name), ErrInvalidName, problems[0])
	}
	return nil
}

// shortName returns a name as messages quote it. A client may have sent a megabyte.
func shortName(name string) string {
	const most = validation.DNS1123SubdomainMaxLength
	if len(name) > most {
		return name[:most] + "..."
	}
	return name
}

// neverSent reports whether a request failed in this process, before it was sent or after its reply has arrived, so
// that each attempt fails alike: its path is invalid, or its object cannot be encoded or decoded.
func neverSent(err error) bool {
	_, syntax := errors.AsType[*json.SyntaxError](err)
	_, mismatch := errors.AsType[*json.UnmarshalTypeError](err)
	return syntax || mismatch || errors.Is(err, ErrInvalidName) || meta.IsNoMatchError(err) ||
		runtime.IsNotRegisteredError(err) ||
		runtime.IsStrictDecodingError(err) || anyLeaf(err, hasNoPath)
}

// hasNoPath reports whether client-go has refused to build the path of a request. Its errors have no type.
func hasNoPath(err error) bool {
	return slices.ContainsFunc([]string{
		"invalid resource ", "invalid subresource ", "invalid namespace ", "resource name may not be empty",
		"an empty namespace may not be set",
	}, func(text string) bool { return strings.HasPrefix(err.Error(), text) })
}

// anyLeaf reports whether is holds for one of the errors in err that wrap no other.
func anyLeaf(err error, is func(error) bool) bool {
	switch wrapping := err.(type) { //nolint:errorlint // looks at each error of the tree by itself
	case nil:
		return false
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(wrapping.Unwrap(), func(err error) bool { return anyLeaf(err, is) })
	case interface{ Unwrap() error }:
		if inner := wrapping.Unwrap(); inner != nil {
			return anyLeaf(inner, is)
		}
	}
	return is(err)
}
