package waits

import (
	"cmp"
	"container/list"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

const (
	// brief is how long a wait lasts before it is shown.
	brief = 3 * time.Second
	// lasting is how long a wait lasts before it is logged. It is logged again when it lasts twice as long, and so on.
	lasting = 10 * time.Second
	// rarest is the longest time between two lines about a wait.
	rarest = 10 * time.Minute
	// lookEvery is the time between two checks for waits that are to be logged.
	lookEvery = 5 * time.Second
	// most is the number of waits that are shown and logged at a time.
	most = 5
)

// Waiting is what some part of a run waits for. Parts that wait for the same are one.
type Waiting struct {
	For     string
	Because string        // the reason; may be empty
	Since   time.Time     // of the oldest
	Lasted  time.Duration // zero if it goes on
	Parts   int           // that wait for it
}

// List holds the open waits of one run. It is safe for concurrent use.
type List struct {
	mu     sync.Mutex
	open   *list.List        // of *Wait, the oldest first
	log    hclog.Logger      // nil for none yet
	looks  bool              // look will be called
	logged map[string]logged // waits that were logged, by their subject
}

// logged is a wait that was logged.
type logged struct {
	since, next time.Time
}

// New returns a list without waits. It logs nothing before LogTo.
func New() *List { return &List{open: list.New(), logged: map[string]logged{}} }

// LogTo makes the list log to log from now on.
func (l *List) LogTo(log hclog.Logger) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.log = log
}

// Longest returns the few oldest of the waits that are not brief, the oldest first, and the number of the others.
func (l *List) Longest() (oldest []Waiting, others int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return First(l.lastedFor(brief))
}

// First returns the first few of the waits, which are the oldest, and the number of the others.
func First(all []Waiting) (oldest []Waiting, others int) {
	slices.SortStableFunc(all,
		func(a, b Waiting) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.For, b.For)) })
	n := min(len(all), most)
	return all[:n], len(all) - n
}

// lastedFor returns the waits that have lasted at least as long, the oldest first. The caller holds mu.
func (l *List) lastedFor(least time.Duration) []Waiting {
	var all []Waiting
	index, before := map[string]int{}, time.Now().Add(-least)
	for e := l.open.Front(); e != nil; e = e.Next() {
		w, _ := e.Value.(*Wait)
		if w.since.After(before) {
			break
		}
		what := w.what()
		i, known := index[what]
		if !known {
			i = len(all)
			index[what] = i
			all = append(all, Waiting{For: what, Since: w.since})
		}
		all[i].Parts++
		if w.because != "" {
			all[i].Because = w.because
		}
	}
	return all
}

// arm makes sure that look is called while there is something to look at. The caller holds mu.
func (l *List) arm() {
	if !l.looks && l.open.Len() > 0 {
		l.looks = true
		time.AfterFunc(lookEvery, l.look)
	}
}

// look logs what lasts.
func (l *List) look() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.looks = false
	l.arm()
	if l.log == nil {
		return
	}
	now := time.Now()
	oldest, others := First(l.lastedFor(lasting))
	for _, w := range oldest {
		last, before := l.logged[w.For]
		if before && now.Before(last.next) {
			continue
		}
		lasts := now.Sub(w.Since)
		l.logged[w.For] = logged{since: w.Since, next: now.Add(min(lasts, rarest))}
		details := []any{"for", w.For, "since", w.Since.UTC().Format(time.RFC3339), "lasts",
			lasts.Round(time.Second).String()}
		if w.Because != "" {
			details = append(details, "because", w.Because)
		}
		if w.Parts > 1 {
			details = append(details, "parts", w.Parts)
		}
		if others > 0 {
			details = append(details, "others", others)
		}
		l.log.Info("waiting", details...)
	}
}

// end removes a wait. If the wait was logged, it logs the end.
func (l *List) end(w *Wait) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.at == nil {
		return // it has ended
	}
	l.open.Remove(w.at)
	w.at = nil
	if len(l.logged) == 0 {
		return
	}
	what := w.what()
	last, ok := l.logged[what]
	if !ok || slices.ContainsFunc(l.lastedFor(0), func(other Waiting) bool { return other.For == what }) {
		return
	}
	delete(l.logged, what)
	l.log.Info("not waiting any more", "for", what, "lasted", time.Since(last.since).Round(time.Second).String())
}
