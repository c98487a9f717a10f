package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/queue"
	"github.com/cleat-dev/cleat/server/status/layout"
)

// inQueue is a Backup that was made some minutes before noon.
func inQueue(name string, phase velerov1.BackupPhase, minutes int) *velerov1.Backup {
	b := &velerov1.Backup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "velero", Name: name, CreationTimestamp: *at(-time.Duration(minutes) * time.Minute)},
		Status:     velerov1.BackupStatus{Phase: phase},
	}
	if phase == velerov1.BackupPhaseInProgress {
		b.Status.StartTimestamp = at(-time.Duration(minutes-1) * time.Minute)
	}
	return b
}

// waiting is a Backup that says why it waits.
func waiting(name string, position, minutes int, wait velerov1.QueueWait) *velerov1.Backup {
	b := inQueue(name, velerov1.BackupPhaseQueued, minutes)
	b.Status.QueuePosition = position
	if wait.Reason != "PolicyFailed" {
		wait.Policy = "example.io/policy"
	}
	wait.Since = *at(-time.Duration(minutes-2) * time.Minute)
	text, _ := json.Marshal(wait)
	b.Annotations = map[string]string{velerov1.QueueWaitAnnotation: string(text)}
	return b
}

// aQueue is one with everything in it that there can be, not in its order.
func aQueue() []*velerov1.Backup {
	unreadable := waiting("unreadable", 5, 10, velerov1.QueueWait{})
	unreadable.Annotations[velerov1.QueueWaitAnnotation] = "{"
	going := inQueue("going", velerov1.BackupPhaseQueued, 50)
	going.DeletionTimestamp = at(0)
	going.Status.QueuePosition = 9
	return []*velerov1.Backup{
		inQueue("fresh", "", 1),
		waiting("fourth", 4, 20, velerov1.QueueWait{Reason: "Freeze", Message: "no backups\x1b[2J before\n18:00"}),
		waiting("third", 3, 30, velerov1.QueueWait{Reason: "Limit", Message: "all 2 places are taken, and it starts when one gets free"}),
		waiting("second", 2, 40, velerov1.QueueWait{
			Reason: "NamespaceOverlap", Message: "shares namespace shop with first, which is ahead of it in the queue; in its way too: a, b, c, d",
			Blockers: []string{"first", "runs", "c", "d", "e"}, Namespaces: []string{"shop"},
		}),
		unreadable,
		inQueue("done", velerov1.BackupPhaseCompleted, 100),
		inQueue("finishing", velerov1.BackupPhaseFinalizing, 90),
		going,
		inQueue("ready", velerov1.BackupPhaseReadyToStart, 45),
		waiting("first", 1, 55, velerov1.QueueWait{
			Reason: "NamespaceOverlap", Message: "shares namespaces billing, shop with runs, which runs",
			Blockers: []string{"runs"}, Namespaces: []string{"billing", "shop"},
		}),
		inQueue("runs", velerov1.BackupPhaseInProgress, 60),
	}
}

func TestQueueTable(t *testing.T) {
	t.Parallel()
	document := newQueueDocument("velero", queue.NewLine(aQueue()), queueServer{Limit: 2, Policy: aPolicy("")})
	golden(t, "queue.txt", queueTable(document.Items, noon()).Print)
	golden(t, "queue.json", func(w io.Writer) error { return layout.PrintJSON(w, document) })
}

func TestExplain(t *testing.T) {
	t.Parallel()
	held := waiting("held", 5, 10, velerov1.QueueWait{Reason: "PolicyFailed", Message: "nothing is decided: QueueAdmission(example.io/policy): it is down"})
	invalid := inQueue("invalid", velerov1.BackupPhaseFailedValidation, 5)
	invalid.Status.ValidationErrors = []string{"one thing", "another thing"}
	done := inQueue("done", velerov1.BackupPhaseCompleted, 100)
	done.Status.CompletionTimestamp = at(-time.Hour)
	runs := inQueue("runs", velerov1.BackupPhaseInProgress, 60)
	runs.Status.Progress = &velerov1.BackupProgress{TotalItems: 10, ItemsBackedUp: 3}
	byName := map[string]*velerov1.Backup{}
	for _, b := range aQueue() {
		byName[b.Name] = b
	}
	byName["invalid"], byName["done"], byName["runs"], byName["held"] = invalid, done, runs, held
	line := queue.NewLine(aQueue())
	golden(t, "queue_explain.txt", func(w io.Writer) error {
		for _, name := range []string{
			"second", "first", "third", "fourth", "held", "unreadable", "fresh", "ready", "runs", "finishing", "done", "invalid", "going",
		} {
			_, _ = io.WriteString(w, "$ cleat queue explain "+name+"\n")
			if err := explain(byName[name], line, noon()).print(w, noon()); err != nil {
				return err
			}
			_, _ = io.WriteString(w, "\n")
		}
		return nil
	})
	golden(t, "queue_explain.json", func(w io.Writer) error { return layout.PrintJSON(w, explain(byName["second"], line, noon())) })
}

func TestAnExplanationOfManyIsShort(t *testing.T) {
	t.Parallel()
	backups := []*velerov1.Backup{inQueue("b0", velerov1.BackupPhaseInProgress, 3000)}
	name := func(i int) string { return "b" + strings.Repeat("i", i) }
	backups[0].Name = name(0)
	for i := 1; i <= 1000; i++ {
		backups = append(backups, waiting(name(i), i, 2000-i, velerov1.QueueWait{
			Reason: "NamespaceOverlap", Message: "m", Blockers: []string{name(i - 1), name(max(0, i-2)), name((i + 1) % 1000)}, // in a ring, too
		}))
	}
	var out bytes.Buffer
	e := explain(backups[1000], queue.NewLine(backups), noon())
	require.NoError(t, e.print(&out, noon()))
	require.Len(t, e.Chain, 1000)
	require.Contains(t, out.String(), "  ... and 970 more, see -o json\n")
}

// feed tells a view of changes.
func feed(t *testing.T, view queueView, events ...[2]*velerov1.Backup) {
	t.Helper()
	for _, e := range events {
		require.NoError(t, view.change(e[0], e[1]))
	}
}

// queueEvents are some changes, of which some show nothing.
func queueEvents() [][2]*velerov1.Backup {
	first := waiting("b", 2, 5, velerov1.QueueWait{Reason: "Limit", Message: "all 2 places are taken"})
	moved := waiting("b", 1, 5, velerov1.QueueWait{Reason: "Limit", Message: "all 2 places are taken"})
	labelled := moved.DeepCopy()
	labelled.Labels = map[string]string{"team": "a"}
	ready, runs := inQueue("b", velerov1.BackupPhaseReadyToStart, 5), inQueue("b", velerov1.BackupPhaseInProgress, 5)
	progress := runs.DeepCopy()
	progress.Status.Progress = &velerov1.BackupProgress{TotalItems: 3}
	done := inQueue("b", velerov1.BackupPhaseCompleted, 5)
	other := inQueue("other", "", 1)
	going := other.DeepCopy()
	going.DeletionTimestamp = at(0)
	return [][2]*velerov1.Backup{
		{nil, inQueue("old", velerov1.BackupPhaseCompleted, 90)},
		{nil, first},
		{first, moved},
		{moved, labelled},
		{labelled, ready},
		{ready, runs},
		{runs, progress},
		{progress, done},
		{done, nil},
		{nil, other},
		{other, going},
		{going, nil},
		{nil, ready},
		{ready, nil},
	}
}

func TestChangesInAPipe(t *testing.T) {
	t.Parallel()
	golden(t, "queue_changes.txt", func(w io.Writer) error {
		feed(t, &changes{write: textChanges(w), now: noon}, queueEvents()...)
		return nil
	})
	golden(t, "queue_changes.json", func(w io.Writer) error {
		feed(t, &changes{write: jsonChanges(w), now: noon}, queueEvents()...)
		return nil
	})
}

func TestAViewIsChosenByWhereItGoes(t *testing.T) {
	t.Parallel()
	file, err := os.Create(t.TempDir() + "/out")
	require.NoError(t, err)
	defer file.Close()
	for _, w := range []io.Writer{file, &bytes.Buffer{}} {
		view, err := newQueueView(w, w, "table")
		require.NoError(t, err)
		require.IsType(t, &changes{}, view)
	}
	_, err = newQueueView(file, file, "yaml")
	require.EqualError(t, err, `--output "yaml" with --watch: want table or json`)
}

// screenText is what a terminal shows after the control sequences of a screen.
func screenText(t *testing.T, out string) string {
	t.Helper()
	var lines []string
	at := 0
	for out != "" {
		switch {
		case strings.HasPrefix(out, "\x1b["):
			end := strings.IndexAny(out, "AKJ")
			n := 0
			for _, digit := range out[2:end] {
				n = n*10 + int(digit-'0')
			}
			switch out[end] {
			case 'A':
				at -= n
				require.GreaterOrEqual(t, at, 0)
			case 'J':
				lines = lines[:min(at, len(lines))]
			}
			out = out[end+1:]
		case out[0] == '\r':
			lines = append(lines, make([]string, max(0, at+1-len(lines)))...)
			lines[at] = ""
			out = out[1:]
		case out[0] == '\n':
			at++
			out = out[1:]
		default:
			end := strings.IndexAny(out, "\r\n\x1b")
			lines[at] += out[:end]
			out = out[end:]
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

func TestAScreenIsDrawnInPlace(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	width, height := 100, 12
	s := &screen{w: &out, size: func() (int, int) { return width, height }, backups: map[string]*velerov1.Backup{}}
	for _, b := range aQueue() {
		require.NoError(t, s.change(nil, b))
	}
	require.NoError(t, s.refresh(noon()))
	golden(t, "queue_screen.txt", func(w io.Writer) error {
		_, err := io.WriteString(w, screenText(t, out.String()))
		return err
	})
	drawn := out.Len()
	require.NoError(t, s.refresh(noon().Add(500*time.Millisecond)))
	require.Equal(t, drawn, out.Len(), "nothing has changed")
	require.NoError(t, s.refresh(noon().Add(time.Second)))
	require.Greater(t, out.Len(), drawn, "the times have")

	s.server(queueServer{Limit: 3, Policy: aPolicy("")})
	require.NoError(t, s.refresh(noon().Add(time.Second)))
	require.Contains(t, screenText(t, out.String()), "waiting\n2 of 3 places taken; policy example.io/policy decides\nPLACE")

	height = 6
	s.note("the API server\nis away")
	require.NoError(t, s.refresh(noon().Add(2*time.Second)))
	text := screenText(t, out.String())
	require.True(t, strings.HasPrefix(text, "1 running, 1 about to start, 6 waiting; the API server is away\n"), text)
	require.Contains(t, text, "\n... and 7 more\n")
	require.Len(t, strings.Split(strings.TrimRight(text, "\n"), "\n"), 5)

	for _, b := range aQueue() {
		require.NoError(t, s.change(b, nil))
	}
	require.NoError(t, s.end())
	require.Equal(t, "0 running, 0 about to start, 0 waiting\n0 of 3 places taken; policy example.io/policy decides\n", screenText(t, out.String()))
	for line := range strings.Lines(screenText(t, out.String())) {
		require.LessOrEqual(t, len([]rune(line)), width+1)
	}
}

func TestAScreenThatBecameNarrowerIsDrawnOverAllOfTheOldOne(t *testing.T) {
	t.Parallel()
	require.Equal(t, 4, rows([]string{strings.Repeat("x", 100), "", "x"}, 50))
	require.Equal(t, 3, rows([]string{strings.Repeat("x", 50), "", "x"}, 50))
	require.Equal(t, "abc…", cut("abcdef", 4))
	require.Equal(t, "größe", cut("größe", 5))
}

// memory notes what a view is told.
type memory struct{ told []string }

func (m *memory) change(before, after *velerov1.Backup) error {
	switch {
	case after == nil:
		m.told = append(m.told, "-"+before.Name)
	case before == nil:
		m.told = append(m.told, "+"+after.Name)
	default:
		m.told = append(m.told, after.Name+" "+string(before.Status.Phase)+">"+string(after.Status.Phase))
	}
	return nil
}
func (m *memory) server(queueServer)      {}
func (m *memory) refresh(time.Time) error { return nil }
func (m *memory) note(string)             {}
func (m *memory) end() error              { return nil }

func TestWhatHappenedWhileNobodyWatchedIsShown(t *testing.T) {
	t.Parallel()
	known := map[string]*velerov1.Backup{}
	view := &memory{}
	list := func(backups ...*velerov1.Backup) []velerov1.Backup {
		var items []velerov1.Backup
		for _, b := range backups {
			items = append(items, *b)
		}
		return items
	}
	again := inQueue("again", velerov1.BackupPhaseQueued, 1)
	again.UID = "1"
	require.NoError(t, relist(known, list(inQueue("done", velerov1.BackupPhaseCompleted, 9), again, inQueue("runs", velerov1.BackupPhaseInProgress, 3), inQueue("gone", "", 1)), view))
	require.Equal(t, []string{"+runs", "+again", "+gone", "+done"}, view.told, "in the order of the queue")
	view.told = nil
	again.UID = "2"
	require.NoError(t, relist(known, list(again, inQueue("runs", velerov1.BackupPhaseFailed, 3), inQueue("done", velerov1.BackupPhaseCompleted, 9)), view))
	require.Equal(t, []string{"-again", "-gone", "+again", "done Completed>Completed", "runs InProgress>Failed"}, view.told)

	view.told = nil
	require.NoError(t, happened(known, watch.Event{Type: watch.Modified, Object: inQueue("runs", velerov1.BackupPhaseCompleted, 3)}, view))
	require.NoError(t, happened(known, watch.Event{Type: watch.Deleted, Object: inQueue("runs", velerov1.BackupPhaseCompleted, 3)}, view))
	require.NoError(t, happened(known, watch.Event{Type: watch.Bookmark, Object: &velerov1.Restore{}}, view))
	require.Equal(t, []string{"runs Failed>Completed", "-runs"}, view.told)
	expired := apierrors.NewResourceExpired("too old").Status()
	require.ErrorIs(t, happened(known, watch.Event{Type: watch.Error, Object: &expired}, view), errWatchEnded)
	forbidden := apierrors.NewForbidden(velerov1.Resource("backups"), "", errors.New("no")).Status()
	require.True(t, apierrors.IsForbidden(happened(known, watch.Event{Type: watch.Error, Object: &forbidden}, view)))
}
