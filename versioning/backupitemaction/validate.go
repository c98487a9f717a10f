package backupitemaction

import (
	"bytes"
	"fmt"

	"github.com/cleat-dev/cleat/proto/velero/shared"
	"github.com/cleat-dev/cleat/versioning/internal/reply"
)

// checkResult checks an action's reply to the item sent, in all versions that can start
// operations.
func checkResult(
	sent, item []byte, additional []*shared.ResourceIdentifier, operationID string, after []*shared.ResourceIdentifier,
) (*Result, error) {
	if err := validateItem(sent, item); err != nil {
		return nil, err
	}
	if err := reply.OperationID(operationID); err != nil {
		return nil, err
	}
	result := &Result{Item: item, OperationID: operationID}
	var err error
	if result.AdditionalItems, err = reply.Identifiers("additionalItems", additional); err != nil {
		return nil, err
	}
	if result.PostOperationItems, err = reply.Identifiers("postOperationItems", after); err != nil {
		return nil, err
	}
	return result, nil
}

// validateItem checks the item in an action's reply to the item sent. The same bytes are
// valid without a closer look. Otherwise it must still be the same object; only its API version may
// differ, as when a CustomResourceDefinition is stored in the version in which it was written.
func validateItem(sent, answered []byte) error {
	if bytes.Equal(sent, answered) || reply.SameObject(sent, answered) {
		return nil
	}
	got, err := reply.ScanObject(answered)
	if err != nil {
		return fmt.Errorf("item %w", err)
	}
	want, err := reply.ScanObject(sent)
	if err != nil {
		return fmt.Errorf("the item sent to the action %w", err)
	}
	switch {
	case got.APIVersion == "":
		return fmt.Errorf("item has no apiVersion, want %q", want.APIVersion)
	case got.Kind != want.Kind:
		return fmt.Errorf("item has kind %q, want %q", got.Kind, want.Kind)
	case got.Group() != want.Group():
		return fmt.Errorf("item has apiVersion %q, want group %q", got.APIVersion, want.Group())
	case got.Namespace != want.Namespace:
		return fmt.Errorf("item has namespace %q, want %q", got.Namespace, want.Namespace)
	case got.Name != want.Name:
		return fmt.Errorf("item has name %q, want %q", got.Name, want.Name)
	}
	return nil
}
