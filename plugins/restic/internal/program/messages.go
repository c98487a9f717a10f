package program

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
)

// Message is one line of JSON that restic prints. Which members are set depends on Type.
type Message struct {
	Type string `json:"message_type"` // "status", "summary", "error", "exit_error"

	// Of a status. Restored and Skipped are those of a restore.
	TotalFiles    int64 `json:"total_files"`
	FilesDone     int64 `json:"files_done"`
	TotalBytes    int64 `json:"total_bytes"`
	BytesDone     int64 `json:"bytes_done"`
	FilesRestored int64 `json:"files_restored"`
	BytesRestored int64 `json:"bytes_restored"`
	FilesSkipped  int64 `json:"files_skipped"`
	BytesSkipped  int64 `json:"bytes_skipped"`

	// Of the summary of a backup.
	SnapshotID     string `json:"snapshot_id"`
	DataAdded      int64  `json:"data_added"`
	BytesProcessed int64  `json:"total_bytes_processed"`
	FilesProcessed int64  `json:"total_files_processed"`

	// Of an error.
	Cause   json.RawMessage `json:"error"`
	During  string          `json:"during"` // "scan", "archival"
	Item    string          `json:"item"`
	Message string          `json:"message"` // of an exit_error
}

// Parse returns the message of a line, or false if the line is text for people.
func Parse(line []byte) (Message, bool) { return parse(line) }

func parse(line []byte) (m Message, ok bool) {
	if len(line) == 0 || line[0] != '{' {
		return m, false
	}
	err := json.Unmarshal(line, &m)
	return m, err == nil && m.Type != ""
}

// Err returns the error of a message of type "error". errors.Is finds fs.ErrNotExist and other errors of the system in
// it.
func (m Message) Err() error {
	var cause struct {
		Message string `json:"message"`
		Op      string
		Path    string
		Err     json.RawMessage
	}
	if json.Unmarshal(m.Cause, &cause) != nil {
		return errors.New(strings.Trim(string(m.Cause), `"`))
	}
	var number syscall.Errno
	switch {
	case cause.Message != "" && strings.Contains(cause.Message, fs.ErrNotExist.Error()), strings.Contains(cause.Message,
		"no such file or directory"):
		return fmt.Errorf("%w (%s)", fs.ErrNotExist, cause.Message)
	case cause.Message != "":
		return errors.New(cause.Message)
	case json.Unmarshal(cause.Err, &number) == nil && number != 0:
		return &fs.PathError{Op: cause.Op, Path: cause.Path, Err: number}
	default:
		return errors.New(string(m.Cause))
	}
}
