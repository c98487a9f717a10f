package reply

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/proto/velero/shared"
)

// maxOperationID is the maximum length of an operation id in bytes: ids are stored in files and shown to people.
const maxOperationID = 1024

// OperationID checks the id of an operation that a plugin started; it is empty if the plugin started
// none.
func OperationID(received string) error {
	switch {
	case len(received) > maxOperationID:
		return fmt.Errorf("operation id has %d bytes, want at most %d", len(received), maxOperationID)
	case strings.ContainsFunc(received, unicode.IsControl):
		return fmt.Errorf("operation id %q has control characters", received)
	case received != "" && strings.TrimSpace(received) == "":
		return fmt.Errorf("operation id %q is blank; a plugin that started nothing answers none at all", received)
	}
	return nil
}

// Progress returns the progress that a plugin reports for an operation. Its numbers are for people and are returned as
// they are, even if they cannot be true. A time that does not exist is the zero time.
func Progress(received *shared.OperationProgress) (framework.OperationProgress, error) {
	if received == nil {
		return framework.OperationProgress{}, errors.New("there is no progress in it")
	}
	return framework.OperationProgress{
		Completed:   received.GetCompleted(),
		Err:         received.GetErr(),
		NCompleted:  received.GetNCompleted(),
		NTotal:      received.GetNTotal(),
		Units:       received.GetOperationUnits(),
		Description: received.GetDescription(),
		Started:     instant(received.GetStarted()),
		Updated:     instant(received.GetUpdated()),
	}, nil
}

// instant returns a time. A missing time is the zero time, which is also what Velero's plugins send for it.
func instant(received *timestamppb.Timestamp) time.Time {
	if !received.IsValid() {
		return time.Time{}
	}
	return received.AsTime()
}
