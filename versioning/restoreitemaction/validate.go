package restoreitemaction

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/cleat-dev/cleat/proto/velero/shared"
	"github.com/cleat-dev/cleat/versioning/internal/reply"
)

// checkResult checks an action's reply to the item sent, in all versions that can start
// operations. If the item is skipped, nothing else is checked.
func checkResult(
	sent, item []byte, additional []*shared.ResourceIdentifier, skip bool, operationID string,
) (*Result, error) {
	if err := reply.OperationID(operationID); err != nil {
		return nil, err
	}
	if skip {
		return &Result{SkipRestore: true, OperationID: operationID}, nil
	}
	if err := validateItem(sent, item); err != nil {
		return nil, err
	}
	before, err := reply.Identifiers("additionalItems", additional)
	if err != nil {
		return nil, err
	}
	return &Result{Item: item, AdditionalItems: before, OperationID: operationID}, nil
}

// validateItem checks the item in an action's reply to the item sent. The same bytes are
// valid without a closer look. Otherwise it must be some object: an action may turn an item into another kind, or
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
