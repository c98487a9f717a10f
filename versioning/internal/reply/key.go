package reply

import (
	"fmt"
	"strings"
)

// StartKey returns the key for the start of an operation on item for owner, the running Backup or Restore. It is the
// same for every attempt and differs for every other item and owner. Both are objects as JSON. It is part of the Start
// request.
func StartKey(owner, item []byte) (string, error) {
	of, err := ScanObject(owner)
	if err != nil {
		return "", fmt.Errorf("the running backup or restore %w", err)
	}
	on, err := ScanObject(item)
	if err != nil {
		return "", fmt.Errorf("the item sent to the action %w", err)
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
