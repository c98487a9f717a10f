package backupitemaction

import (
	"bytes"
	"fmt"

	"github.com/cleat-dev/cleat/versioning/internal/reply"
)

// validateItem checks the item that an action answered when it was asked about sent. The same bytes are
// right without a look. Otherwise it must still be the object asked about; only the version of its API may
// be another, as when a CustomResourceDefinition is stored in the version it was written in.
func validateItem(sent, answered []byte) error {
	if bytes.Equal(sent, answered) {
		return nil
	}
	got, err := reply.ScanObject(answered)
	if err != nil {
		return fmt.Errorf("item %w", err)
	}
	want, err := reply.ScanObject(sent)
	if err != nil {
		return fmt.Errorf("the item that the action was asked about %w", err)
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
