package volumesnapshotter

import (
	"bytes"
	"fmt"

	"github.com/cleat-dev/cleat/versioning/internal/reply"
)

// validateID checks the id of a volume or snapshot that a snapshotter made: without an id it cannot be found again.
func validateID(of, id string) error {
	if id == "" {
		return fmt.Errorf("the new %s has no id", of)
	}
	return nil
}

// validateIOPS checks the number of I/O operations per second that a volume is reported to have.
func validateIOPS(iops int64) error {
	if iops < 0 {
		return fmt.Errorf("a volume cannot have %d operations per second; one without has 0", iops)
	}
	return nil
}

// validatePersistentVolume checks the reply to the PersistentVolume sent: it must still be the same object.
func validatePersistentVolume(sent, answered []byte) error {
	if bytes.Equal(sent, answered) {
		return nil
	}
	got, err := reply.ScanObject(answered)
	if err != nil {
		return fmt.Errorf("persistentVolume %w", err)
	}
	want, err := reply.ScanObject(sent)
	if err != nil {
		return fmt.Errorf("the persistentVolume sent to the snapshotter %w", err)
	}
	got.UID, want.UID = "", ""
	if got != want {
		return fmt.Errorf("persistentVolume is %s %s %q, want %s %s %q",
			got.APIVersion, got.Kind, got.Name, want.APIVersion, want.Kind, want.Name)
	}
	return nil
}
