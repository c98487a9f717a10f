package status

import (
	"cmp"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
	"github.com/cleat-dev/cleat/server/internal/spec/queue"
)

// Queue is the document of "queue".
type Queue struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace"`
	Running    int    `json:"running"`
	Ready      int    `json:"ready"`
	Waiting    int    `json:"waiting"`
	QueueServer
	Items []QueueItem `json:"items"` // running backups first, then ready ones, then waiting ones in their order
}

// NewQueue returns the document about a queue in a namespace.
func NewQueue(namespace string, line queue.Line, server QueueServer) Queue {
	items := QueueItems(line)
	server.Complete(items)
	return Queue{
		APIVersion: APIVersion, Kind: "Queue", Namespace: namespace,
		Running: len(line.Running), Ready: len(line.Ready), Waiting: len(line.Queued), QueueServer: server, Items: items,
	}
}

// QueueItem is a backup in the queue.
type QueueItem struct {
	Name     string `json:"name"`
	Phase    string `json:"phase"`
	Position int    `json:"position,omitempty"` // of a waiting backup, from 1
	// Since is the time when it was started, or created if it was not started.
	Since metav1.Time `json:"since"`
	// Wait is the reason for waiting, or for holding no slot; absent if it runs or the server gives no reason.
	Wait    *velerov1.QueueWait `json:"wait,omitempty"`
	Problem string              `json:"problem,omitempty"` // error while Wait was read
}

// why returns the sentence with the reason why a backup waits.
func (i *QueueItem) why() string {
	switch {
	case i.Wait != nil:
		return layout.OneLine(cmp.Or(i.Wait.Message, i.Wait.Reason))
	default:
		return layout.OneLine(i.Problem)
	}
}

// blockers returns the backups that the policy names as obstacles.
func (i *QueueItem) blockers() []string {
	if i.Wait == nil {
		return nil
	}
	return i.Wait.Blockers
}

func (i *QueueItem) position() string {
	if i.Position < 1 {
		return "-"
	}
	return strconv.Itoa(i.Position)
}

func (i *QueueItem) waits() bool {
	return i.Phase == string(velerov1.BackupPhaseQueued) || i.Phase == string(velerov1.BackupPhaseNew)
}

// NextInQueue returns the first backup that waits for a slot and nothing else, and nil if there is none.
func NextInQueue(items []QueueItem) *QueueItem {
	for i := range items {
		if items[i].waits() && items[i].waitsForSlot() {
			return &items[i]
		}
	}
	return nil
}

// waitsForSlot reports whether only the limit is in the way.
func (i *QueueItem) waitsForSlot() bool { return i.Wait != nil && i.Wait.Reason == reasonLimit }

func newQueueItem(b *velerov1.Backup) QueueItem {
	item := QueueItem{Name: b.Name, Phase: PhaseOrNew(string(b.Status.Phase)), Since: b.CreationTimestamp}
	if start := b.Status.StartTimestamp; start != nil {
		item.Since = *start
	}
	if b.Status.Phase != velerov1.BackupPhaseQueued {
		return item
	}
	item.Position = b.Status.QueuePosition
	wait, err := velerov1.QueueWaitOf(b)
	if err != nil {
		item.Problem = err.Error()
	}
	item.Wait = wait
	return item
}

// QueueItems returns the backups of a queue in the order of Queue.Items. The positions are counted: those in the status
// of backups far behind are approximate.
func QueueItems(line queue.Line) []QueueItem {
	items := []QueueItem{}
	for _, backups := range [][]*velerov1.Backup{line.Running, line.Ready, line.Queued} {
		for i, b := range backups {
			item := newQueueItem(b)
			if b.Status.Phase == velerov1.BackupPhaseQueued {
				item.Position = i + 1
			}
			items = append(items, item)
		}
	}
	return items
}

// QueueTable returns the table of "queue".
func QueueTable(items []QueueItem, now time.Time) layout.Table {
	t := layout.Table{Head: []string{"POSITION", "NAME", "PHASE", "SINCE", "WAITS FOR", "WHY"}}
	for i := range items {
		item := &items[i]
		t.Rows = append(t.Rows, []string{
			item.position(), item.Name, item.Phase, layout.Ago(item.Since, now), layout.Abbreviate(item.blockers(), 3, ", "),
			item.why(),
		})
	}
	return t
}
