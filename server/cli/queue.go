package cli

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/queue"
)

func (a *App) queueCommand() *cobra.Command {
	var live bool
	var output string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "queue",
		Short: "Show which backups run, which wait, and why",
		Long: "Show which backups run, which wait, and why; how many places there are, and whether the policy works that decides who\n" +
			"starts. With -w, go on until ctrl-c: on a terminal the table is drawn anew, anywhere else there is a line for each\n" +
			"change, which is a JSON object with -o json.",
		Example: "  cleat queue\n  cleat queue -w\n  cleat queue -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.cluster.connect()
			if err != nil {
				return err
			}
			if live {
				view, err := newQueueView(a.Out, a.Err, output)
				if err != nil {
					return err
				}
				return s.watchQueue(cmd.Context(), view, timeout)
			}
			server := s.askQueueServer(cmd.Context(), timeout)
			line, err := s.line(cmd.Context())
			if err != nil {
				return err
			}
			document := newQueueDocument(s.namespace, line, server)
			return a.print(output, []string{"table"}, document, func() error {
				if _, err := fmt.Fprintln(a.Out, server.text(document.Running+document.Ready, time.Now())); err != nil {
					return err
				}
				if len(document.Items) == 0 {
					_, err := fmt.Fprintln(a.Out, "No backup runs or waits.")
					return err
				}
				return queueTable(document.Items, time.Now()).print(a.Out)
			})
		},
	}
	addOutput(cmd, &output, "table")
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Second, "how long to wait for what the server says; the queue is shown without it")
	cmd.Flags().BoolVarP(&live, "watch", "w", false, "show each change as it happens")
	cmd.AddCommand(a.queueExplainCommand(), a.queueSimulateCommand())
	return cmd
}

// line is the queue as the Backups have it now.
func (s *session) line(ctx context.Context) (queue.Line, error) {
	var list velerov1.BackupList
	if err := s.List(ctx, &list, client.InNamespace(s.namespace)); err != nil {
		return queue.Line{}, fmt.Errorf("list the backups: %w", err)
	}
	backups := make([]*velerov1.Backup, len(list.Items))
	for i := range list.Items {
		backups[i] = &list.Items[i]
	}
	return queue.NewLine(backups), nil
}

// queueDocument is what "queue -o json" prints.
type queueDocument struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace"`
	Running    int    `json:"running"`
	Ready      int    `json:"ready"`
	Waiting    int    `json:"waiting"`
	queueServer
	Items []queueItem `json:"items"` // those that run, then those that are ready, then those that wait, in order
}

// queueItem is a backup in the queue.
type queueItem struct {
	Name     string `json:"name"`
	Phase    string `json:"phase"`
	Position int    `json:"position,omitempty"` // of one that waits, from 1
	// Since is when it was started, and of one that was not, when it was created.
	Since metav1.Time `json:"since"`
	// Wait is why it waits; absent when it does not, or when the server does not say so.
	Wait    *velerov1.QueueWait `json:"wait,omitempty"`
	Problem string              `json:"problem,omitempty"` // with what the server says
}

func newQueueDocument(namespace string, line queue.Line, server queueServer) queueDocument {
	return queueDocument{
		APIVersion: apiVersion, Kind: "Queue", Namespace: namespace,
		Running: len(line.Running), Ready: len(line.Ready), Waiting: len(line.Queued), queueServer: server, Items: queueItems(line),
	}
}

// queueItems are all backups of a line: who runs first, who waits longest last.
func queueItems(line queue.Line) []queueItem {
	items := []queueItem{}
	for _, backups := range [][]*velerov1.Backup{line.Running, line.Ready, line.Queued} {
		for _, b := range backups {
			items = append(items, newQueueItem(b))
		}
	}
	return items
}

func newQueueItem(b *velerov1.Backup) queueItem {
	item := queueItem{Name: b.Name, Phase: phaseOr(string(b.Status.Phase)), Since: b.CreationTimestamp}
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

// why is for people why a backup waits.
func (i *queueItem) why() string {
	switch {
	case i.Wait != nil:
		return oneLine(cmp.Or(i.Wait.Message, i.Wait.Reason))
	default:
		return oneLine(i.Problem)
	}
}

// blockers are the backups that it is said to wait for.
func (i *queueItem) blockers() []string {
	if i.Wait == nil {
		return nil
	}
	return i.Wait.Blockers
}

// place is its place as people read it.
func (i *queueItem) place() string {
	if i.Position < 1 {
		return "-"
	}
	return strconv.Itoa(i.Position)
}

// queueTable is what "queue" prints.
func queueTable(items []queueItem, now time.Time) table {
	t := table{head: []string{"PLACE", "NAME", "PHASE", "SINCE", "WAITS FOR", "WHY"}}
	for i := range items {
		item := &items[i]
		t.rows = append(t.rows, []string{
			item.place(), item.Name, item.Phase, since(item.Since, now), some(item.blockers(), 3, ", "), item.why(),
		})
	}
	return t
}

// since is how long ago a moment was.
func since(t metav1.Time, now time.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(max(0, now.Sub(t.Time))) + " ago"
}

// some are the first few of names.
func some(names []string, most int, separator string) string {
	safe := make([]string, 0, most)
	for _, name := range names[:min(most, len(names))] {
		safe = append(safe, oneLine(name))
	}
	text := strings.Join(safe, separator)
	if left := len(names) - most; left > 0 {
		text += fmt.Sprintf(" and %d more", left)
	}
	return text
}
