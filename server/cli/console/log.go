package console

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/runs"
	"github.com/cleat-dev/cleat/server/cli/status"
	"github.com/cleat-dev/cleat/server/internal/console"
	"github.com/cleat-dev/cleat/server/internal/kube/shorten"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
)

const (
	linesPerPage = 500
	longestLine  = 4 << 10 // bytes that are shown of a line
	longestRead  = 1 << 20 // bytes of a line that is read at all
	logWithin    = time.Minute
)

// logDocument is a part of the log of a run.
type logDocument struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"` // Log
	Name       string   `json:"name"`
	From       int      `json:"from"`  // number of the first line, of those that the search selects
	Lines      []string `json:"lines"` // at most 500
	More       bool     `json:"more"`  // there are lines after them
	// Live is whether the run has not ended: the lines are the last ones in the log of the server, of Count so far.
	Live    bool   `json:"live,omitempty"`
	Count   int    `json:"count,omitempty"`
	Problem string `json:"problem,omitempty"` // why lines may be missing

	Stored         string `json:"-"` // path of what is stored of a run that has not ended; "" if nothing is
	Asked          string `json:"-"` // "stored" of the request
	Search         string `json:"-"`
	Back           string `json:"-"`
	Command        string `json:"-"`
	Previous, Next string `json:"-"`
	Note           string `json:"-"` // why there is none
}

// logOf is a run whose log is shown.
type logOf struct {
	object   object
	run      status.Run
	since    time.Time // of the first line
	target   velerov1.DownloadTargetKind
	location string
}

// readLog returns the last lines of a run that has not ended. Of another, and with "stored", it returns the stored
// lines from number "from" on. All contain "search".
func readLog(ctx context.Context, l *console.Look, of logOf) (*logDocument, error) {
	run := of.run
	doc := &logDocument{APIVersion: status.APIVersion, Kind: "Log", Name: run.Name, Search: l.Value("search"),
		Asked: l.Value("stored"), From: 1,
		Lines: []string{}, Back: pathOf(run.Kind+"s", run.Name), Command: "cleat " + run.Kind + " logs " + run.Name}
	if text := l.Value("from"); text != "" {
		var err error
		if doc.From, err = strconv.Atoi(text); err != nil || doc.From < 1 {
			return nil, console.Wrong{Text: fmt.Sprintf("from=%q: want a number from 1", text)}
		}
	}
	if !run.Ended() && doc.Asked == "" {
		if run.HasLog() {
			doc.Stored = l.Request.URL.EscapedPath() + "?stored=yes"
		}
		return doc, doc.readLive(ctx, l, of)
	}
	l.Stay()
	if !run.HasLog() {
		doc.Note = "There is no log; the phase is " + run.Phase + "."
		return doc, nil
	}
	ctx, cancel := context.WithTimeout(ctx, logWithin)
	defer cancel()
	body, err := runs.NewDownloads(answerWithin).OpenTarget(ctx, clusterOf(l),
		runs.Target{Kind: of.target, Name: run.Name, Location: of.location})
	if errors.Is(err, runs.ErrNoFile) {
		doc.Note = "There is no log in the object storage: " + layout.OrNone(run.FailureReason) + "."
		return doc, nil
	}
	if err != nil {
		return nil, err
	}
	defer body.Close() //nolint:errcheck // only read from
	if err := doc.read(body); err != nil {
		return nil, fmt.Errorf("read the log of %s: %w", run.Name, err)
	}
	if doc.From > 1 {
		doc.Previous = doc.link(l, max(1, doc.From-linesPerPage))
	}
	if doc.More {
		doc.Next = doc.link(l, doc.From+linesPerPage)
	}
	return doc, nil
}

// read takes the lines of the page from a log.
func (d *logDocument) read(log io.Reader) error {
	lines := bufio.NewScanner(log)
	lines.Buffer(make([]byte, 64<<10), longestRead)
	search := strings.ToLower(d.Search)
	for number := 1; lines.Scan(); {
		if !strings.Contains(strings.ToLower(lines.Text()), search) {
			continue
		}
		if len(d.Lines) == linesPerPage {
			d.More = true
			return nil
		}
		if number >= d.From {
			d.Lines = append(d.Lines, layout.Printable(shorten.Text(lines.Text(), longestLine)))
		}
		number++
	}
	return lines.Err()
}

func (d *logDocument) link(l *console.Look, from int) string {
	values := url.Values{"from": {strconv.Itoa(from)}}
	if d.Asked != "" {
		values.Set("stored", d.Asked)
	}
	if d.Search != "" {
		values.Set("search", d.Search)
	}
	return l.Request.URL.EscapedPath() + "?" + values.Encode()
}
