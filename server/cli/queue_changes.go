package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/queue"
)

// queueChange is a line of "queue -w -o json": how a backup is now. One that has left the queue has the phase in which it
// is since, or is deleted.
type queueChange struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Time       string `json:"time"` // when it was seen, RFC 3339
	queueItem
	Deleted bool `json:"deleted,omitempty"`
}

// text is the change for people, without its time.
func (c *queueChange) text() string {
	switch {
	case c.Deleted:
		return c.Name + ": deleted"
	case c.Position > 0:
		text := fmt.Sprintf("%s: %s, place %d", c.Name, c.Phase, c.Position)
		if why := c.why(); why != "" {
			text += ": " + why
		}
		return text
	default:
		return c.Name + ": " + c.Phase
	}
}

// changes writes a line for each change of a backup that is or was in the queue.
type changes struct {
	notes io.Writer
	write func(queueChange) error
	now   func() time.Time

	trouble string // with the policy, as it was told last
}

func (c *changes) change(before, after *velerov1.Backup) error {
	was, is := newChange(before), newChange(after)
	switch {
	case after == nil && inLine(before):
		is = was
		is.Deleted = true
	case after == nil, before == nil && !inLine(after), was.text() == is.text():
		return nil
	}
	is.Time = c.now().UTC().Format(time.RFC3339)
	return c.write(is)
}

// server notes what is wrong with the policy, once.
func (c *changes) server(told queueServer) {
	if told.Problem != "" {
		return
	}
	before := c.trouble
	c.trouble = told.trouble(c.now())
	switch {
	case c.trouble != "" && before != "":
	case c.trouble != "":
		c.note("policy " + c.trouble)
	case before != "":
		c.note("policy " + oneLine(told.Policy.Plugin) + " works again")
	}
}

func (c *changes) refresh(time.Time) error { return nil }
func (c *changes) note(text string)        { fmt.Fprintln(c.notes, text) }
func (c *changes) end() error              { return nil }

// newChange is a change to b, which may be nil.
func newChange(b *velerov1.Backup) queueChange {
	change := queueChange{APIVersion: apiVersion, Kind: "QueueChange"}
	if b == nil {
		return change
	}
	change.queueItem = newQueueItem(b)
	if b.DeletionTimestamp != nil && !inLine(b) {
		change.Phase, change.Position = string(velerov1.BackupPhaseDeleting), 0
	}
	return change
}

// inLine tells whether a backup runs, is about to, or waits.
func inLine(b *velerov1.Backup) bool {
	line := queue.NewLine([]*velerov1.Backup{b})
	return len(line.Running)+len(line.Ready)+len(line.Queued) > 0
}

func textChanges(w io.Writer) func(queueChange) error {
	return func(c queueChange) error {
		_, err := fmt.Fprintf(w, "%s  %s\n", c.Time, c.text())
		return err
	}
}

func jsonChanges(w io.Writer) func(queueChange) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return func(c queueChange) error { return encoder.Encode(c) }
}
