package dryrun

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
)

// FileName is the name of the file of a dry run, after the name of the backup or restore and a dash.
const FileName = "dry-run.json.gz"

// Verdict is the outcome for one item in one word.
type Verdict string

// The verdicts. A restore lists items of the last three as failed.
const (
	Created  Verdict = "created"
	Updated  Verdict = "updated"
	Skipped  Verdict = "skipped"
	Conflict Verdict = "conflict" // it exists, differs from the backup and would be left as it is
	Refused  Verdict = "refused"  // by the API server: validation, admission, quota
	Failed   Verdict = "failed"
)

// Verdicts returns all verdicts in the order in which they are shown.
func Verdicts() []Verdict { return []Verdict{Created, Updated, Skipped, Conflict, Refused, Failed} }

// Outcome describes how a restore would treat one item.
type Outcome struct {
	Resource   string  `json:"resource"` // as in "deployments.apps"
	APIVersion string  `json:"apiVersion,omitempty"`
	Kind       string  `json:"kind,omitempty"`
	Namespace  string  `json:"namespace,omitempty"` // that is restored into
	Name       string  `json:"name"`
	Outcome    Verdict `json:"outcome"`
	Reason     string  `json:"reason,omitempty"`
	// Unchecked means that the API server could not check the item, because the same restore would create something that
	// the item needs.
	Unchecked bool `json:"unchecked,omitempty"`
	// Incomplete means that the item would be restored, but not as requested; see the reason.
	Incomplete bool `json:"incomplete,omitempty"`
}

// Summary is the end of the file of a restore.
type Summary struct {
	// Items counts the items by verdict.
	Items map[Verdict]int `json:"items"`
	// NotCalled are the actions that were not called because they may have side effects, each with the number of items
	// that it applies to.
	NotCalled map[string]int `json:"notCalled,omitempty"`
}

// Total returns the number of items.
func (s Summary) Total() int {
	n := 0
	for _, count := range s.Items {
		n += count
	}
	return n
}

// Describe describes an outcome in one line.
func Describe(summary Summary) string {
	var counts []string
	for _, verdict := range Verdicts() {
		if n := summary.Items[verdict]; n > 0 {
			counts = append(counts, fmt.Sprintf("%s: %d", verdict, n))
		}
	}
	return "dry run: items that would be " + cmp.Or(strings.Join(counts, ", "), "restored: none") +
		"; nothing was restored"
}

// line is a line of the file of a restore: an outcome or, last, the summary.
type line struct {
	Outcome
	Summary *Summary `json:"summary,omitempty"`
}

// OutcomeWriter writes the file of a restore: gzip, one JSON object per line. It is safe for concurrent use.
type OutcomeWriter struct {
	mu    sync.Mutex
	gzip  *gzip.Writer
	lines *json.Encoder
	items map[Verdict]int
	err   error
}

// NewOutcomeWriter returns a writer to w.
func NewOutcomeWriter(w io.Writer) *OutcomeWriter {
	compressed := gzip.NewWriter(w)
	lines := json.NewEncoder(compressed)
	lines.SetEscapeHTML(false)
	return &OutcomeWriter{gzip: compressed, lines: lines, items: map[Verdict]int{}}
}

// Add adds an outcome. Close returns the error if that fails.
func (w *OutcomeWriter) Add(o Outcome) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.items[o.Outcome]++
	if w.err == nil {
		w.err = w.lines.Encode(o)
	}
}

// Close writes the summary, which it returns. It does not close the underlying writer.
func (w *OutcomeWriter) Close(notCalled map[string]int) (Summary, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	summary := Summary{Items: w.items, NotCalled: notCalled}
	if w.err == nil {
		w.err = w.lines.Encode(struct {
			Summary Summary `json:"summary"`
		}{summary})
	}
	if w.err == nil {
		w.err = w.gzip.Close()
	}
	return summary, w.err
}

// maxLine bounds a line: the reason may have the message of a webhook.
const maxLine = 4 << 20

// ReadOutcomes calls use for each outcome of a file, which is not compressed any more, and returns the summary. A file
// without a summary at its end is incomplete, which is an error.
func ReadOutcomes(r io.Reader, use func(Outcome) error) (Summary, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	var summary *Summary
	for n := 1; lines.Scan(); n++ {
		var one line
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			return Summary{}, fmt.Errorf("line %d of the outcomes of a dry run: %w", n, err)
		}
		if summary != nil {
			return Summary{}, fmt.Errorf("line %d of the outcomes of a dry run comes after the summary", n)
		}
		if summary = one.Summary; summary == nil {
			if err := use(one.Outcome); err != nil {
				return Summary{}, err
			}
		}
	}
	if err := lines.Err(); err != nil {
		return Summary{}, fmt.Errorf("read the outcomes of a dry run: %w", err)
	}
	if summary == nil {
		return Summary{}, errors.New("read the outcomes of a dry run: there is no summary at the end, the file is incomplete")
	}
	return *summary, nil
}
