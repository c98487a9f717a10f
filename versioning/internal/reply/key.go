package reply

import (
	"fmt"
	"strings"
)

// StartKey names the start of an operation on item for owner, the Backup or Restore that runs: the same at every try,
// and another for every other item and owner. Both are JSON of objects. A plugin is asked with it.
func StartKey(owner, item []byte) (string, error) {
	of, err := ScanObject(owner)
	if err != nil {
		return "", fmt.Errorf("the operation that runs %w", err)
	}
	on, err := ScanObject(item)
	if err != nil {
		return "", fmt.Errorf("the item that the action is asked about %w", err)
	}
	which := of.UID
	if which == "" {
		which = of.Namespace + "/" + of.Name
	}
	kind := on.Kind
	if group := on.Group(); group != "" {
		kind += "." + group
	}
	return strings.Join([]string{which, kind, on.Namespace, on.Name}, "/"), nil
}
