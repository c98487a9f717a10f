package status

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
	"github.com/cleat-dev/cleat/server/internal/spec/queue"
)

// Explanation is the document of "queue explain".
type Explanation struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	QueueItem
	State   string      `json:"state"` // a sentence
	Created metav1.Time `json:"created"`
	Ahead   int         `json:"ahead"`             // number of backups before it in the queue
	Starts  string      `json:"starts,omitempty"`  // when it starts, as text
	WaitFor []string    `json:"waitFor,omitempty"` // names of the backups that it waits for directly
	More    bool        `json:"more,omitempty"`    // there may be more of them, further ahead
	// Chain lists all backups that it waits for, directly or through others, down to the running ones.
	Chain []Link `json:"chain,omitempty"`
}

// Print writes the explanation as text.
func (e *Explanation) Print(w io.Writer, now time.Time) error {
	d := layout.NewDescription(w)
	d.Line("%s", e.State)
	if e.Position == 0 {
		return d.Err()
	}
	d.Gap()
	if e.Wait == nil {
		d.Pairs([2]string{"Why", layout.OrNone(e.why())}, [2]string{"Created", layout.FormatTime(&e.Created) + " (" +
			layout.Ago(e.Created, now) + ")"},
			[2]string{"Ahead of it", layout.Count(e.Ahead, "backup")})
		if e.Problem == "" {
			d.Gap()
			d.Line("The server gives no reason. A server of Velero never does; cleat does with its next decision.")
		}
		return d.Err()
	}
	d.Pairs(
		[2]string{"Why", e.why()},
		[2]string{"Reason", layout.OneLine(e.Wait.Reason)},
		[2]string{"Decided by", cmp.Or(layout.OneLine(e.Wait.Policy), "none: the policy does not answer")},
		[2]string{"Namespaces", layout.OrNone(layout.Abbreviate(e.Wait.Namespaces, 8, ", "))},
		[2]string{"Waiting since", layout.FormatTime(&e.Wait.Since) + " (" + layout.Ago(e.Wait.Since, now) + ")"},
		[2]string{"Created", layout.FormatTime(&e.Created) + " (" + layout.Ago(e.Created, now) + ")"},
		[2]string{"Ahead of it", layout.Count(e.Ahead, "backup")},
		[2]string{"Starts", e.Starts},
	)
	if len(e.Chain) == 0 {
		return d.Err()
	}
	d.Gap()
	d.Section("Waits for", func() {
		for i := range e.Chain[:min(maxLinks, len(e.Chain))] {
			l := &e.Chain[i]
			d.Indented(l.depth-1, func() { d.Line("%s", l.text(now)) })
		}
		if left := len(e.Chain) - maxLinks; left > 0 {
			d.Line("... and %d more, see -o json", left)
		}
		if e.More {
			d.Line("... and perhaps others further ahead")
		}
	})
	return d.Err()
}

// Link is a backup in the chain that another backup waits for.
type Link struct {
	QueueItem
	WaitFor []string `json:"waitFor,omitempty"`
	depth   int
}

// text returns the sentence about a link of the chain.
func (l *Link) text(now time.Time) string {
	switch l.Phase {
	case string(velerov1.BackupPhaseInProgress):
		return fmt.Sprintf("%s, running%s", l.Name, layout.SinceTime(&l.Since, now))
	case string(velerov1.BackupPhaseReadyToStart):
		return l.Name + ", about to start"
	}
	text := fmt.Sprintf("%s, waiting at position %s", l.Name, l.position())
	if why := l.why(); why != "" {
		text += ": " + why
	}
	return text
}

// Explain explains the position of b, which may have left the queue. all are its blockers as the server has computed
// them; nil if only the nearest is known.
func Explain(b *velerov1.Backup, line queue.Line, all *serverreport.Blockers, now time.Time) *Explanation {
	e := &Explanation{APIVersion: APIVersion, Kind: "QueueExplanation", QueueItem: newQueueItem(b),
		Created: b.CreationTimestamp}
	at := slices.IndexFunc(line.Queued, func(other *velerov1.Backup) bool { return other.Name == b.Name })
	if at >= 0 && e.Position > 0 {
		e.Position = at + 1 // that in the status is approximate far behind
	}
	e.State = stateOf(b, e.Position, len(line.Queued), now)
	if b.Status.Phase != velerov1.BackupPhaseQueued || b.DeletionTimestamp != nil {
		e.Position, e.Wait = 0, nil
		return e
	}
	e.Ahead = max(0, at)
	everybody := newChain(line)
	if all != nil && all.Backup == b.Name && e.Wait != nil && len(e.Wait.Blockers) > 0 && len(all.Names) > 0 {
		wait := *e.Wait
		wait.Blockers, e.More = all.Names, all.More
		e.Wait = &wait
	}
	e.WaitFor = everybody.waitFor(&e.QueueItem)
	e.Starts = everybody.starts(&e.QueueItem, e.Ahead)
	everybody.follow(e.Name, e.WaitFor, 1)
	e.Chain = everybody.links
	return e
}

// stateOf returns a sentence about the state of a backup. position is that in the queue, of waiting backups.
func stateOf(b *velerov1.Backup, position, waiting int, now time.Time) string {
	phase := b.Status.Phase
	switch {
	case b.DeletionTimestamp != nil || phase == velerov1.BackupPhaseDeleting:
		return b.Name + " is being deleted."
	case phase == "" || phase == velerov1.BackupPhaseNew:
		return fmt.Sprintf("%s is new: no server has added it to its queue yet. Is a server running in namespace %s?", b.Name,
			b.Namespace)
	case phase == velerov1.BackupPhaseQueued:
		return fmt.Sprintf("%s is waiting at position %d of %d.", b.Name, position, waiting)
	case phase == velerov1.BackupPhaseReadyToStart:
		return b.Name + " is not waiting: it has a slot and is about to start."
	case phase == velerov1.BackupPhaseInProgress:
		text := b.Name + " is not waiting: it has been running" + layout.SinceTime(b.Status.StartTimestamp, now)
		if p := b.Status.Progress; p != nil && p.TotalItems > 0 {
			text += fmt.Sprintf(", and has backed up %d of %d items", p.ItemsBackedUp, p.TotalItems)
		}
		return text + "."
	case phase == velerov1.BackupPhaseFailedValidation:
		return fmt.Sprintf("%s is not waiting: it failed validation and was never started: %s.", b.Name,
			layout.OneLine(strings.Join(b.Status.ValidationErrors, "; ")))
	case phase.Terminal():
		text := fmt.Sprintf("%s is not waiting: it ended as %s", b.Name, phase)
		if b.Status.CompletionTimestamp != nil {
			text += " at " + layout.FormatTime(b.Status.CompletionTimestamp)
		}
		return text + "."
	default:
		return fmt.Sprintf("%s is not waiting: it has released its slot and is %s.", b.Name, phase)
	}
}

// chain collects the backups that a backup waits for.
type chain struct {
	items   map[string]*QueueItem
	holders []string // of slots
	links   []Link
	met     map[string]bool
}

// waitFor returns the backups that an item waits for. An item that waits for a slot waits for the holders of slots.
func (c *chain) waitFor(item *QueueItem) []string {
	if item.waitsForSlot() {
		return c.holders
	}
	var names []string
	for _, name := range item.blockers() {
		if c.items[name] != nil {
			names = append(names, name)
		}
	}
	return names
}

// follow adds the links below name, each once.
func (c *chain) follow(name string, waitFor []string, depth int) {
	c.met[name] = true
	for _, other := range waitFor {
		if c.met[other] {
			continue
		}
		item := c.items[other]
		below := c.waitFor(item)
		c.links = append(c.links, Link{*item, below, depth})
		c.follow(other, below, depth+1)
	}
}

// starts returns a clause about the start of an item. ahead is the number of backups before it.
func (c *chain) starts(item *QueueItem, ahead int) string {
	waitFor := c.waitFor(item)
	switch {
	case item.Wait == nil:
		return ""
	case item.Wait.Policy == "":
		return "when the policy answers again and admits it; \"cleat queue\" says what is wrong with the policy"
	case item.waitsForSlot() && len(waitFor) == 0:
		return "with the next decision: slots are free"
	case item.waitsForSlot():
		text := fmt.Sprintf("when %s has ended", layout.Enumerate(waitFor, "or"))
		if ahead > 0 {
			text += fmt.Sprintf(", unless a backup ahead of it (%d of them) takes the slot", ahead)
		}
		return text
	case len(item.blockers()) == 0:
		return "when the policy admits it; the policy is asked again after every change and at the time that it names"
	case len(waitFor) == 0:
		return "with the next decision: the backups that it waited for have ended"
	}
	var running, waiting []string
	for _, name := range waitFor {
		if c.items[name].waits() {
			waiting = append(waiting, name)
		} else {
			running = append(running, name)
		}
	}
	var conditions []string
	if len(running) > 0 {
		conditions = append(conditions, layout.Enumerate(running, "and")+layout.Plural(running, " has ended", " have ended"))
	}
	if len(waiting) > 0 {
		conditions = append(conditions, layout.Enumerate(waiting, "and")+layout.Plural(waiting, " has run", " have run"))
	}
	return "when " + strings.Join(conditions, " and ") + ", and a slot is free"
}

func newChain(line queue.Line) *chain {
	c := &chain{items: map[string]*QueueItem{}, met: map[string]bool{}}
	for _, item := range QueueItems(line) {
		c.items[item.Name] = &item
		if !item.waits() {
			c.holders = append(c.holders, item.Name)
		}
	}
	return c
}

// reasonLimit is the reason of backups that wait for nothing but a slot.
const reasonLimit = "Limit"

// maxLinks is the number of links that are printed as text.
const maxLinks = 30
