package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/status/layout"
)

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
		c.note("policy " + layout.OneLine(told.Policy.Plugin) + " works again")
	}
}

func (c *changes) refresh(time.Time) error { return nil }

func (c *changes) note(text string) { fmt.Fprintln(c.notes, text) }

func (c *changes) end() error { return nil }

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
