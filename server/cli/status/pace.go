package status

import (
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// Paces remember how far things were when somebody looked last, so that their present pace is known, and not only that
// since their beginning. They are safe for concurrent use. Nil remembers nothing.
type Paces struct {
	mu    sync.Mutex
	known map[string]*looks
}

// looks are the last two changes of an amount.
type looks struct{ before, last look }

type look struct {
	done int64
	at   time.Time // zero if there was none
}

// forgotten is the time after which an amount that nobody has looked at is forgotten.
const forgotten = 10 * time.Minute

// of returns the pace of what has begun at a time and is so far now. key identifies it.
func (p *Paces) of(key string, done int64, began *metav1.Time, now time.Time) pace {
	if done <= 0 {
		return pace{}
	}
	if p != nil {
		if present := p.look(key, done, now); present.known {
			return present
		}
	}
	if began == nil {
		return pace{}
	}
	return between(0, done, now.Sub(began.Time))
}

// look remembers an amount, and returns the pace between its last two changes. If the next change takes longer than
// the last one, the pace becomes less.
func (p *Paces) look(key string, done int64, now time.Time) pace {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.known[key]
	if l == nil {
		if p.known == nil {
			p.known = map[string]*looks{}
		}
		for other, old := range p.known {
			if now.Sub(old.last.at) > forgotten {
				delete(p.known, other)
			}
		}
		l = &looks{}
		p.known[key] = l
	}
	switch {
	case done < l.last.done: // it has begun anew
		*l = looks{last: look{done, now}}
	case l.last.at.IsZero():
		l.last = look{done, now}
	case done > l.last.done && now.Sub(l.last.at) >= time.Second:
		l.before, l.last = l.last, look{done, now}
	}
	if l.before.at.IsZero() {
		return pace{}
	}
	took := l.last.at.Sub(l.before.at)
	if waits := now.Sub(l.last.at); waits > took {
		took += waits
	}
	return between(l.before.done, l.last.done, took)
}

// Pace is how fast the bytes of a volume are moved.
type Pace struct {
	BytesPerSecond int64  `json:"bytesPerSecond"`
	Left           string `json:"left,omitempty"` // the time until all is done: "3m"
}

// text returns a pace for a sentence, "" for nil.
func (p *Pace) text() string {
	if p == nil {
		return ""
	}
	text := pace{float64(p.BytesPerSecond), true}.text("bytes")
	if p.Left != "" {
		text += ", " + p.Left + " left"
	}
	return text
}

// newPace returns the pace of a load, and nil if it is not known.
func newPace(paces *Paces, uid string, phase velerov1.LoadPhase, progress velerov1.LoadProgress, began *metav1.Time,
	now time.Time,
) *Pace {
	if phase != velerov1.LoadPhaseInProgress {
		return nil
	}
	rate := paces.of(uid, progress.BytesDone, began, now)
	if !rate.known {
		return nil
	}
	p := &Pace{BytesPerSecond: int64(rate.perSecond)}
	if left := rate.left(progress.BytesDone, progress.TotalBytes); left != none {
		p.Left = left
	}
	return p
}

// WithPaces returns loads with their paces as of now.
func WithPaces(pods []PodVolume, movements []Movement, paces *Paces, now time.Time) ([]PodVolume, []Movement) {
	var withPods []PodVolume
	for _, v := range pods {
		v.Pace = newPace(paces, string(v.UID), v.Phase, v.Progress, v.Started, now)
		withPods = append(withPods, v)
	}
	var withMovements []Movement
	for _, m := range movements {
		m.Pace = newPace(paces, string(m.UID), m.Phase, m.Progress, m.Started, now)
		withMovements = append(withMovements, m)
	}
	return withPods, withMovements
}

// Pace returns how fast the items of a run are dealt with and the time left, "" if that is not known. The total is an
// estimate until all items are known.
func (r Run) Pace(paces *Paces, key string, began *metav1.Time, now time.Time) string {
	if r.Phase != string(velerov1.BackupPhaseInProgress) {
		return ""
	}
	rate := paces.of(key, int64(r.Done), began, now)
	if !rate.known {
		return ""
	}
	text := rate.text("")
	if left := rate.left(int64(r.Done), int64(r.Total)); left != none {
		text += ", " + left + " left"
	}
	return text
}
