package outcome

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

// FileName is the name of the file of a restore, after its name and a dash. That of a dry run has another one.
const FileName = "items.json.gz"

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

// line is a line of the file of a restore: an item, the plan or, last, the summary.
type line struct {
	Item
	Plan    *Plan    `json:"plan,omitempty"`
	Summary *Summary `json:"summary,omitempty"`
}

// Writer writes the file of a restore: gzip, one JSON object per line. It is safe for concurrent use.
type Writer struct {
	mu    sync.Mutex
	gzip  *gzip.Writer
	lines *json.Encoder
	items map[Verdict]int
	err   error
}

// NewWriter returns a writer to w.
func NewWriter(w io.Writer) *Writer {
	compressed := gzip.NewWriter(w)
	lines := json.NewEncoder(compressed)
	lines.SetEscapeHTML(false)
	return &Writer{gzip: compressed, lines: lines, items: map[Verdict]int{}}
}

// Add adds an item. Close returns the error if that fails.
func (w *Writer) Add(o Item) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if o.Outcome != LeftOut {
		w.items[o.Outcome]++
	}
	w.encode(o)
}

// Plan adds the plan. Close returns the error if that fails.
func (w *Writer) Plan(p *Plan) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.encode(struct {
		Plan *Plan `json:"plan"`
	}{p})
}

func (w *Writer) encode(one any) {
	if w.err == nil {
		w.err = w.lines.Encode(one)
	}
}

// flush writes all lines so far to the underlying writer.
func (w *Writer) flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = w.gzip.Flush()
	}
	return w.err
}

// Close writes the summary, which it returns. It does not close the underlying writer.
func (w *Writer) Close(notCalled map[string]int) (Summary, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	summary := Summary{Items: w.items, NotCalled: notCalled}
	w.encode(struct {
		Summary Summary `json:"summary"`
	}{summary})
	if w.err == nil {
		w.err = w.gzip.Close()
	}
	return summary, w.err
}

// maxLine bounds a line: the reason may have the message of a webhook.
const maxLine = 4 << 20

// Content is what the file of a restore has beside the items.
type Content struct {
	Plan    *Plan // nil if the restore ended before it was made
	Summary Summary
}

// Read calls use for each item of a file, which is not compressed any more, and returns the rest. A file without a
// summary at its end is incomplete, which is an error.
func Read(r io.Reader, use func(Item) error) (Content, error) {
	content, complete, err := read(r, use)
	if err == nil && !complete {
		err = errors.New("read the items of a restore: there is no summary at the end, the file is incomplete")
	}
	return content, err
}

func read(r io.Reader, use func(Item) error) (content Content, complete bool, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for n := 1; lines.Scan(); n++ {
		var one line
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			return content, false, fmt.Errorf("line %d of the items of a restore: %w", n, err)
		}
		switch {
		case complete:
			return content, false, fmt.Errorf("line %d of the items of a restore comes after the summary", n)
		case one.Summary != nil:
			content.Summary, complete = *one.Summary, true
		case one.Plan != nil:
			content.Plan = one.Plan
		default:
			if err := use(one.Item); err != nil {
				return content, false, err
			}
		}
	}
	if err := lines.Err(); err != nil {
		return content, complete, fmt.Errorf("read the items of a restore: %w", err)
	}
	return content, complete, nil
}
