package datamover

import (
	"fmt"
	"slices"

	datamoverv1 "github.com/cleat-dev/cleat/proto/cleat/datamover/v1"
	"github.com/cleat-dev/cleat/versioning/internal/reply"
)

const (
	// maxID is the maximum length of a snapshot's id in bytes: it is in the status of a custom resource, and in file names
	// of some movers.
	maxID = 256
	// maxWarnings is the maximum number of warnings of a result.
	maxWarnings = 100
)

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
		if err := reply.Line(fmt.Sprintf("warnings[%d]", i), warning); err != nil {
			return err
		}
	}
	return nil
}

// validateSnapshot checks the result of a Backup. An id that belongs to another backup would be deleted with that.
func validateSnapshot(snapshot Snapshot, parent string) error {
	if snapshot.ID == "" && snapshot.Bytes == 0 && snapshot.NewBytes == 0 {
		return validateCounts(snapshot.Warnings)
	}
	if err := reply.Line("snapshot_id", snapshot.ID); err != nil {
		return err
	}
	if len(snapshot.ID) > maxID {
		return fmt.Errorf("snapshot_id has %d bytes, want at most %d", len(snapshot.ID), maxID)
	}
	if snapshot.ID == parent {
		return fmt.Errorf("snapshot_id is %s, the parent; want a snapshot of its own", reply.Clip(parent))
	}
	return validateCounts(snapshot.Warnings, count{"bytes", snapshot.Bytes}, count{"new_bytes", snapshot.NewBytes})
}

// validateKept checks which snapshots a Forget has kept.
func validateKept(kept, asked []string) error {
	for i, id := range kept {
		if !slices.Contains(asked, id) {
			return fmt.Errorf("kept[%d] is %s, want a snapshot that was to be removed", i, reply.Clip(id))
		}
	}
	return nil
}

// validateChecked checks the result of a Check.
func validateChecked(checked Checked, mayCreate bool) error {
	if checked.Created && !mayCreate {
		return fmt.Errorf("the repository was created, which nobody asked for")
	}
	return validateCounts(checked.Warnings)
}

// validateProgress checks a report of progress. Numbers that are merely unlikely are no error: it would end the work of
// hours.
func validateProgress(sent *datamoverv1.Progress) error {
	if sent.GetActivity() != "" {
		if err := reply.Line("progress.activity", sent.GetActivity()); err != nil {
			return err
		}
	}
	return validateCounts(nil,
		count{"progress.done_bytes", sent.GetDoneBytes()}, count{"progress.total_bytes", sent.GetTotalBytes()},
		count{"progress.done_files", sent.GetDoneFiles()}, count{"progress.total_files", sent.GetTotalFiles()})
}
