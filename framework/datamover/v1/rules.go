package v1

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cleat-dev/cleat/framework/internal/wire"
)

const (
	// maxID is the maximum length of a snapshot's id in bytes: it is in the status of a custom resource, and in file names
	// of some movers.
	maxID = 256
	// maxWarnings is the maximum number of warnings of a result.
	maxWarnings = 100
)

// Validate returns an error if the host would not accept the output of a Backup: an id that belongs to another backup
// would be deleted with that one.
func (o *BackupOutput) Validate(input *BackupInput) error {
	if o.SnapshotID == "" && o.Bytes == 0 && o.NewBytes == 0 {
		return validateCounts(o.Warnings)
	}
	if err := wire.Line("snapshot_id", o.SnapshotID); err != nil {
		return err
	}
	if len(o.SnapshotID) > maxID {
		return fmt.Errorf("snapshot_id has %d bytes, want at most %d", len(o.SnapshotID), maxID)
	}
	if o.SnapshotID == input.Parent {
		return fmt.Errorf("snapshot_id is %s, the parent; want a snapshot of its own", wire.Clip(input.Parent))
	}
	return validateCounts(o.Warnings, count{"bytes", o.Bytes}, count{"new_bytes", o.NewBytes})
}

// Validate returns an error if the host would not accept the output.
func (o *RestoreOutput) Validate(*RestoreInput) error {
	return validateCounts(o.Warnings, count{"bytes", o.Bytes})
}

// Validate returns an error if the host would not accept the output of a Forget.
func (o *ForgetOutput) Validate(input *ForgetInput) error {
	err := validateCounts(o.Warnings)
	for i, id := range o.Kept {
		if !slices.Contains(input.SnapshotIDs, id) {
			return errors.Join(err,
				fmt.Errorf("kept[%d] is %s, want a snapshot that was to be removed", i, wire.Clip(id)))
		}
	}
	return err
}

// Validate returns an error if the host would not accept the output.
func (o *MaintainOutput) Validate(*MaintainInput) error {
	return validateCounts(o.Warnings, count{"freed_bytes", o.FreedBytes})
}

// Validate returns an error if the host would not accept the output of a Check.
func (o *CheckOutput) Validate(input *CheckInput) error {
	if o.Created && !input.Create {
		return errors.New("the repository was created, which nobody asked for")
	}
	for _, id := range o.Missing {
		if !slices.Contains(input.SnapshotIDs, id) {
			return fmt.Errorf("snapshot %.100q is missing, which nobody asked for", id)
		}
	}
	return validateCounts(o.Warnings)
}

// Validate returns an error if the host would not accept the progress. Numbers that are merely unlikely are no error:
// it would end the work of hours.
func (p *Progress) Validate() error {
	if p.Activity != "" {
		if err := wire.Line("progress.activity", p.Activity); err != nil {
			return err
		}
	}
	return validateCounts(nil,
		count{"progress.done_bytes", p.DoneBytes}, count{"progress.total_bytes", p.TotalBytes},
		count{"progress.done_files", p.DoneFiles}, count{"progress.total_files", p.TotalFiles})
}

// count is a number of a reply that must not be negative.
type count struct {
	field  string
	number int64
}

// validateCounts checks the warnings and numbers of a result.
func validateCounts(warnings []string, counts ...count) error {
	for _, c := range counts {
		if c.number < 0 {
			return fmt.Errorf("%s is %d, want 0 or more", c.field, c.number)
		}
	}
	if len(warnings) > maxWarnings {
		return fmt.Errorf("there are %d warnings, want at most %d", len(warnings), maxWarnings)
	}
	for i, warning := range warnings {
		if err := wire.Line(fmt.Sprintf("warnings[%d]", i), warning); err != nil {
			return err
		}
	}
	return nil
}
