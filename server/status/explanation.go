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
	"github.com/cleat-dev/cleat/server/queue"
	"github.com/cleat-dev/cleat/server/status/layout"
)

// Explanation is what "queue explain -o json" prints.
type Explanation struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	QueueItem
	State   string      `json:"state"` // a sentence
	Created metav1.Time `json:"created"`
	Ahead   int         `json:"ahead"`             // how many stand before it in the queue
	Starts  string      `json:"starts,omitempty"`  // what has to happen, in words
	WaitFor []string    `json:"waitFor,omitempty"` // names of those that it waits for itself
	// Chain are all that it waits for, directly or because others wait for them, up to those that run.
	Chain []Link `json:"chain,omitempty"`
}

// print writes the explanation as text.
func (e *Explanation) Print(w io.Writer, now time.Time) error {
	d := layout.NewDescription(w)
	d.Line("%s", e.State)
	if e.Position == 0 {
		return d.Err()
	}
	d.Gap()
	if e.Wait == nil {
		d.Pairs([2]string{"Why", layout.OrNone(e.why())}, [2]string{"Created", layout.FormatTime(&e.Created) + " (" + layout.Ago(e.Created, now) + ")"},
			[2]string{"Ahead of it", layout.Count(e.Ahead, "backup")})
		if e.Problem == "" {
			d.Gap()
			d.Line("The server has not said why. One of Velero's does not; cleat's does with its next decision.")
		}
		return d.Err()
	}
	d.Pairs(
		[2]string{"Why", e.why()},
		[2]string{"Reason", layout.OneLine(e.Wait.Reason)},
		[2]string{"Decided by", cmp.Or(layout.OneLine(e.Wait.Policy), "nobody: the policy does not answer")},
		[2]string{"Namespaces", layout.OrNone(layout.Abbreviate(e.Wait.Namespaces, 8, ", "))},
		[2]string{"Waits so since", layout.FormatTime(&e.Wait.Since) + " (" + layout.Ago(e.Wait.Since, now) + ")"},
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
	})
	return d.Err()
}

// Link is a backup that others wait for.
type Link struct {
	QueueItem
	WaitFor []string `json:"waitFor,omitempty"`
	depth   int
}

// text is a link of the chain for people.
func (l *Link) text(now time.Time) string {
	switch l.Phase {
	case string(velerov1.BackupPhaseInProgress):
		return fmt.Sprintf("%s, which runs%s", l.Name, layout.SinceTime(&l.Since, now))
	case string(velerov1.BackupPhaseReadyToStart):
		return l.Name + ", which is about to start"
	}
	text := fmt.Sprintf("%s, which waits at place %s", l.Name, l.place())
	if why := l.why(); why != "" {
		text += ": " + why
	}
	return text
}

// explain says what there is to say about b, which may have left the line.
func Explain(b *velerov1.Backup, line queue.Line, now time.Time) *Explanation {
	e := &Explanation{APIVersion: APIVersion, Kind: "QueueExplanation", QueueItem: newQueueItem(b), Created: b.CreationTimestamp}
	at := slices.IndexFunc(line.Queued, func(other *velerov1.Backup) bool { return other.Name == b.Name })
	e.State = stateOf(b, len(line.Queued), now)
	if b.Status.Phase != velerov1.BackupPhaseQueued || b.DeletionTimestamp != nil {
		e.Position, e.Wait = 0, nil
		return e
	}
	e.Ahead = max(0, at)
	everybody := newChain(line)
	e.WaitFor = everybody.waitFor(&e.QueueItem)
	e.Starts = everybody.starts(&e.QueueItem, e.Ahead)
	everybody.follow(e.Name, e.WaitFor, 1)
	e.Chain = everybody.links
	return e
}

// stateOf is a sentence about a backup.
func stateOf(b *velerov1.Backup, waiting int, now time.Time) string {
	phase := b.Status.Phase
	switch {
	case b.DeletionTimestamp != nil || phase == velerov1.BackupPhaseDeleting:
		return b.Name + " is being deleted."
	case phase == "" || phase == velerov1.BackupPhaseNew:
		return fmt.Sprintf("%s is new: no server has taken it into its queue yet. Is one running in namespace %s?", b.Name, b.Namespace)
	case phase == velerov1.BackupPhaseQueued:
		return fmt.Sprintf("%s waits at place %d of %d.", b.Name, b.Status.QueuePosition, waiting)
	case phase == velerov1.BackupPhaseReadyToStart:
		return b.Name + " does not wait: it has its place and is about to start."
	case phase == velerov1.BackupPhaseInProgress:
		text := b.Name + " does not wait: it runs" + layout.SinceTime(b.Status.StartTimestamp, now)
		if p := b.Status.Progress; p != nil && p.TotalItems > 0 {
			text += fmt.Sprintf(", and has backed up %d of %d items", p.ItemsBackedUp, p.TotalItems)
		}
		return text + "."
	case phase == velerov1.BackupPhaseFailedValidation:
		return fmt.Sprintf("%s does not wait: it is not valid and was never started: %s.", b.Name, layout.OneLine(strings.Join(b.Status.ValidationErrors, "; ")))
	case phase.Terminal():
		text := fmt.Sprintf("%s does not wait: it has ended as %s", b.Name, phase)
		if b.Status.CompletionTimestamp != nil {
			text += " at " + layout.FormatTime(b.Status.CompletionTimestamp)
		}
		return text + "."
	default:
		return fmt.Sprintf("%s does not wait: it has given its place to others and is %s.", b.Name, phase)
	}
}

// chain follows backups to those that they wait for.
type chain struct {
	items   map[string]*QueueItem
	holders []string // of places
	links   []Link
	met     map[string]bool
}

// waitFor are the backups of the line that an item waits for. One that waits for a place waits for those that have one.
func (c *chain) waitFor(item *QueueItem) []string {
	if item.waitsForPlace() {
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

// starts says in words what has to happen so that an item starts, before which there are so many others.
func (c *chain) starts(item *QueueItem, ahead int) string {
	waitFor := c.waitFor(item)
	switch {
	case item.Wait == nil:
		return ""
	case item.Wait.Policy == "":
		return "when the policy answers again and lets it; \"cleat queue\" says what is wrong with it"
	case item.waitsForPlace() && len(waitFor) == 0:
		return "with the next decision: places are free"
	case item.waitsForPlace():
		text := fmt.Sprintf("when %s has ended", layout.Enumerate(waitFor, "or"))
		if ahead > 0 {
			text += fmt.Sprintf(", and none of the %s takes the place", layout.Count(ahead, "backup")+" ahead of it")
		}
		return text
	case len(item.blockers()) == 0:
		return "when the policy lets it, which is asked again with every change, and when it wants to be"
	case len(waitFor) == 0:
		return "with the next decision: those that it waited for have ended"
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
	return "when " + strings.Join(conditions, " and ") + ", and a place is free"
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

// reasonLimit is why backups wait that may start as soon as a place gets free.
const reasonLimit = "Limit"

// maxLinks are how many backups of a chain people are shown.
const maxLinks = 30
