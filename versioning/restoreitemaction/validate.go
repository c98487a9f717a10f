package restoreitemaction

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/cleat-dev/cleat/versioning/internal/reply"
)

// validateItem checks the item that an action answered when it was asked about sent. The same bytes are
// right without a look. Otherwise it must be some object: an action may turn an item into another kind, or
// give it another name or namespace.
func validateItem(sent, answered []byte) error {
	if bytes.Equal(sent, answered) {
		return nil
	}
	got, err := reply.ScanObject(answered)
	switch {
	case err != nil:
		return fmt.Errorf("item %w", err)
	case got.APIVersion == "":
		return errors.New("item has no apiVersion")
	case got.Kind == "":
		return errors.New("item has no kind")
	case got.Name == "":
		return errors.New("item has no metadata.name")
	}
	return nil
}
