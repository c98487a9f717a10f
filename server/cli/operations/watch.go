package operations

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/status"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
)

// view shows operations while they go on.
type view interface {
	// show shows operations. before is an earlier report for their rates; may be nil.
	show(now status.Operations, before *serverreport.Operations) error
	// note shows why there is nothing new.
	note(text string) error
}

const (
	// askPause is the time between two questions to the server.
	askPause = 2 * time.Second
	// rateOver is the time over which rates are computed. Plugins report progress in steps.
	rateOver = 30 * time.Second
)

// watch shows operations in view until ctx ends, which is not an error. After the beginning it tolerates an API server
// that is away.
func watch(ctx context.Context, ask func(context.Context) (status.Operations, error), view view) error {
	var past history
	for begun := false; ; {
		document, err := ask(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && (!begun || apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err)):
			return err
		case err != nil:
			err = view.note(fmt.Sprintf("the API server cannot be reached; the display continues when it can: %v", err))
		default:
			begun = true
			err = view.show(document, past.add(document))
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(askPause):
		}
	}
}

// history holds the last reports of a server.
type history []*serverreport.Operations

// add adds a report and returns the one to compare it with, nil if there is none. Stored operations are compared with
// nothing.
func (h *history) add(document status.Operations) *serverreport.Operations {
	if document.Problem != "" {
		*h = nil
		return nil
	}
	now := document.Operations
	all := append(*h, now)
	for len(all) > 2 && now.Time.Sub(all[1].Time) >= rateOver {
		all = all[1:]
	}
	*h = all
	if len(all) == 1 {
		return nil
	}
	return all[0]
}

// newView returns a view that draws a table on a terminal, and prints lines elsewhere.
func newView(out, notes io.Writer, output string) (view, error) {
	switch output {
	case "json":
		return &documents{lines: lines{notes: notes}, out: out}, nil
	case "table":
		if terminal, ok := command.ScreenOn(out); ok {
			return &screen{terminal}, nil
		}
		return &changes{lines: lines{notes: notes}, out: out, known: map[string]string{}}, nil
	default:
		return nil, fmt.Errorf("--output %q with --watch: want table or json", output)
	}
}

// screen draws the table over the previous one.
type screen struct{ *command.Screen }

func (s *screen) show(now status.Operations, before *serverreport.Operations) error {
	var text strings.Builder
	if err := now.Print(&text, before); err != nil {
		return err
	}
	return s.Draw(strings.Split(strings.TrimRight(text.String(), "\n"), "\n"))
}

func (s *screen) note(text string) error { return s.Draw([]string{layout.OneLine(text)}) }

// lines notes each thing once.
type lines struct {
	notes io.Writer
	noted string
}

func (l *lines) note(text string) error {
	if text != l.noted && text != "" {
		fmt.Fprintln(l.notes, layout.OneLine(text))
	}
	l.noted = text
	return nil
}

// documents prints a document as a line of JSON if anything has changed.
type documents struct {
	lines
	out  io.Writer
	last string
}

func (d *documents) show(now status.Operations, _ *serverreport.Operations) error {
	timeless, report := now, *now.Operations
	report.Time = time.Time{}
	timeless.Operations = &report
	content, err := json.Marshal(timeless)
	if err != nil || string(content) == d.last {
		return err
	}
	d.last, d.noted = string(content), ""
	encoder := json.NewEncoder(d.out)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(now)
}

// changes prints a line for each operation that begins, ends, or gets into trouble or out of it.
type changes struct {
	lines
	out    io.Writer
	known  map[string]string // owners that were shown, by their UIDs
	before *serverreport.Operations
}

func (c *changes) show(now status.Operations, _ *serverreport.Operations) error {
	if err := c.note(now.Problem); err != nil {
		return err
	}
	owners, when := map[string]string{}, now.Time.UTC().Format(time.RFC3339)
	for i := range now.Owners {
		owner := &now.Owners[i]
		owners[string(owner.UID)] = serverreport.OwnerKey(owner.Kind, owner.Name)
	}
	for _, text := range status.OperationChanges(c.before, now.Operations) {
		if _, err := fmt.Fprintf(c.out, "%s  %s\n", when, text); err != nil {
			return err
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(c.known)) {
		if _, still := owners[uid]; still {
			continue
		}
		if _, err := fmt.Fprintf(c.out, "%s  %s: the server does not follow its operations any more\n", when,
			layout.OneLine(c.known[uid])); err != nil {
			return err
		}
	}
	c.known, c.before = owners, now.Operations
	return nil
}
