package queue

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/status"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
)

// changes is a view that writes a line for each change of a backup that is or was in the queue.
type changes struct {
	notes io.Writer
	write func(status.QueueChange) error
	now   func() time.Time

	trouble string // last problem of the policy; empty if it works
}

func (c *changes) change(before, after *velerov1.Backup) error {
	was, is := status.NewQueueChange(before), status.NewQueueChange(after)
	switch {
	case after == nil && status.InQueue(before):
		is = was
		is.Deleted = true
	case after == nil, before == nil && !status.InQueue(after), was.Text() == is.Text():
		return nil
	}
	is.Time = c.now().UTC().Format(time.RFC3339)
	return c.write(is)
}

// server notes a problem of the policy once, and its end.
func (c *changes) server(answer status.QueueServer) {
	if answer.Problem != "" {
		return
	}
	before := c.trouble
	c.trouble = answer.Trouble(c.now())
	switch {
	case c.trouble != "" && before != "":
	case c.trouble != "":
		c.note("policy " + c.trouble)
	case before != "":
		c.note("policy " + layout.OneLine(answer.Policy.Plugin) + " works again")
	}
}

func (c *changes) refresh(time.Time) error { return nil }

func (c *changes) note(text string) { fmt.Fprintln(c.notes, text) }

func (c *changes) end() error { return nil }

func textChanges(w io.Writer) func(status.QueueChange) error {
	return func(c status.QueueChange) error {
		_, err := fmt.Fprintf(w, "%s  %s\n", c.Time, c.Text())
		return err
	}
}

func jsonChanges(w io.Writer) func(status.QueueChange) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return func(c status.QueueChange) error { return encoder.Encode(c) }
}
