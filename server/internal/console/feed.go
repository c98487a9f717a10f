package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cleat-dev/cleat/server/internal/kube/readable"
)

// Kind is a kind of objects that pages list.
type Kind struct {
	Name    string // in the plural, for people: "backups"
	NewList func() client.ObjectList
	// Everywhere has the objects of all namespaces listed, or those that have none, instead of those in the namespace of
	// the server.
	Everywhere bool
	Slim       func(client.Object) // removes what no page shows; may be nil
}

const (
	listPage   = 500
	firstPause = 500 * time.Millisecond // after a failed request
	lastPause  = 10 * time.Second
	// pollPause is the time between two lists for a viewer who may list and not watch.
	pollPause = 10 * time.Second
	// freshEnough is the age of the last accepted request up to which a page shows a feed without asking whether the
	// viewer may still see it.
	freshEnough = 5 * time.Second
	// firstList is the longest time that a page waits for the first list.
	firstList = 20 * time.Second
)

// feed holds the objects of a kind as one viewer may see them. It begins with the first look at them and ends when
// nobody has looked for a while.
type feed struct {
	signal
	viewer *Viewer
	kind   Kind
	stop   context.CancelFunc
	begun  chan struct{} // closed after the first list, or its failure

	mu       sync.Mutex
	rows     []*row    // sorted by namespace and name
	leftOut  []string  // objects that cannot be read
	problem  error     // nil while the rows are current
	accepted time.Time // when the API server has last accepted a request
	used     time.Time
}

// startFeed begins to follow a kind until ctx ends.
func startFeed(ctx context.Context, v *Viewer, kind Kind) *feed {
	ctx, stop := context.WithCancel(ctx)
	f := &feed{viewer: v, kind: kind, stop: stop, begun: make(chan struct{}), used: time.Now()}
	go f.follow(ctx)
	return f
}

// list calls each with the objects, sorted by namespace and name, after telling their number to begin. It returns an
// error for people if they are not current; there may be objects nevertheless.
func (f *feed) list(ctx context.Context, begin func(count int), each func(client.Object)) error {
	wait, cancel := context.WithTimeout(ctx, firstList)
	defer cancel()
	select {
	case <-f.begun:
	case <-wait.Done():
		return fmt.Errorf("the API server has not listed the %s within %s", f.kind.Name, firstList)
	}
	f.confirm(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.used = time.Now()
	begin(len(f.rows))
	for _, r := range f.rows {
		each(r.object)
	}
	if len(f.leftOut) > 0 {
		return errors.Join(f.problem, errors.New(strings.Join(f.leftOut, "; ")))
	}
	return f.problem
}

// compare orders rows by the namespaces and names of their objects.
func compare(r *row, o client.Object) int {
	return cmp.Or(cmp.Compare(r.object.GetNamespace(), o.GetNamespace()), cmp.Compare(r.object.GetName(), o.GetName()))
}

// confirm asks the API server whether the viewer may still see the objects, unless it has said so just now.
func (f *feed) confirm(ctx context.Context) {
	f.mu.Lock()
	fresh := f.problem != nil || time.Since(f.accepted) < freshEnough
	f.mu.Unlock()
	if fresh {
		return
	}
	if err := f.viewer.List(ctx, f.kind.NewList(), append(f.where(), client.Limit(1))...); isRefused(err) {
		f.fail(err)
	} else if err == nil || readable.IsUnreadable(err) {
		f.accept()
	}
}

func (f *feed) where() []client.ListOption {
	if f.kind.Everywhere {
		return nil
	}
	return []client.ListOption{client.InNamespace(f.viewer.Namespace)}
}

// follow lists and watches until ctx ends. A watch that breaks is resumed.
func (f *feed) follow(ctx context.Context) {
	pause := firstPause
	for from := ""; ctx.Err() == nil; {
		began := time.Now()
		var err error
		if from == "" {
			from, err = f.relist(ctx)
		}
		if err == nil {
			f.accept()
			from, err = f.watch(ctx, from)
		}
		if time.Since(began) > lastPause {
			pause = firstPause
		}
		switch {
		case ctx.Err() != nil:
			return
		case err == nil: // the API server ends each watch after a while
			continue
		case apierrors.IsResourceExpired(err), apierrors.IsGone(err):
			from = ""
			continue
		case errors.Is(err, errMayNotWatch):
			from = ""
			f.sleep(ctx, pollPause)
			continue
		case isRefused(err):
			from = ""
		}
		f.fail(err)
		f.sleep(ctx, pause)
		pause = min(2*pause, lastPause)
	}
}

// errMayNotWatch means that the viewer may list the objects, but not watch them.
var errMayNotWatch = errors.New("the viewer may not watch")

func (f *feed) sleep(ctx context.Context, pause time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(pause):
	}
}

// relist replaces the rows by all objects, and returns the version at which a watch continues.
func (f *feed) relist(ctx context.Context) (from string, err error) {
	var rows []*row
	var leftOut []string
	for next := ""; ; {
		list := f.kind.NewList()
		err := readable.List(ctx, f.viewer, f.viewer.Scheme(), list,
			func(err error) { leftOut = append(leftOut, err.Error()) },
			append(f.where(), client.Limit(listPage), client.Continue(next))...)
		if err != nil {
			return "", err
		}
		_ = meta.EachListItem(list, func(o runtime.Object) error { // the function returns no error
			if object, ok := o.(client.Object); ok {
				rows = append(rows, f.viewer.pool.intern(object, f.kind.Slim))
			}
			return nil
		})
		if next = list.GetContinue(); next == "" {
			from = list.GetResourceVersion()
			break
		}
	}
	slices.SortFunc(rows, func(a, b *row) int { return compare(a, b.object) })
	rows = slices.Clip(rows)
	f.mu.Lock()
	same := slices.Equal(rows, f.rows)
	f.rows, f.leftOut = rows, leftOut
	f.mu.Unlock()
	if !same {
		f.wake()
	}
	return from, nil
}

// watch applies changes since a version until the watch ends, and returns the version of the last one.
func (f *feed) watch(ctx context.Context, from string) (last string, err error) {
	seconds := int64(f.viewer.recheck.Seconds())
	watcher, err := f.viewer.Watch(ctx, f.kind.NewList(), append(f.where(), &client.ListOptions{Raw: &metav1.ListOptions{
		ResourceVersion: from, AllowWatchBookmarks: true, TimeoutSeconds: &seconds,
	}})...)
	if apierrors.IsForbidden(err) {
		return "", errMayNotWatch
	}
	if err != nil {
		return from, err
	}
	defer watcher.Stop()
	f.accept()
	for event := range watcher.ResultChan() {
		if event.Type == watch.Error {
			return from, apierrors.FromObject(event.Object)
		}
		object, ok := event.Object.(client.Object)
		if !ok {
			return "", fmt.Errorf("a watch of %s brought a %T", f.kind.Name, event.Object)
		}
		from = object.GetResourceVersion()
		if event.Type != watch.Bookmark {
			f.apply(event.Type, object)
		}
	}
	return from, nil
}

func (f *feed) apply(what watch.EventType, object client.Object) {
	f.mu.Lock()
	at, known := slices.BinarySearchFunc(f.rows, object, compare)
	switch {
	case what == watch.Deleted && known:
		f.rows = slices.Delete(f.rows, at, at+1)
	case what == watch.Deleted:
	case known:
		f.rows[at] = f.viewer.pool.intern(object, f.kind.Slim)
	default:
		f.rows = slices.Insert(f.rows, at, f.viewer.pool.intern(object, f.kind.Slim))
	}
	f.mu.Unlock()
	f.wake()
}

// accept notes that the API server has accepted a request of the viewer.
func (f *feed) accept() {
	f.mu.Lock()
	before := f.problem
	f.problem, f.accepted = nil, time.Now()
	f.begin()
	f.mu.Unlock()
	if before != nil {
		f.wake()
	}
}

// fail notes why the rows are not current. If the viewer may not see them any more, they are dropped.
func (f *feed) fail(err error) {
	f.mu.Lock()
	before := f.problem
	switch {
	case apierrors.IsUnauthorized(err):
		f.rows, f.problem = nil, errSignedOut
	case apierrors.IsForbidden(err):
		f.rows, f.problem = nil, Refusal{fmt.Sprintf("you may not list %s%s", f.kind.Name,
			f.viewer.in(f.kind))}
	default:
		f.problem = fmt.Errorf("reconnecting: the %s are those of %s, because the API server cannot be reached: %w",
			f.kind.Name, clock(f.accepted), err)
	}
	changed := before == nil || before.Error() != f.problem.Error()
	f.begin()
	f.mu.Unlock()
	if apierrors.IsUnauthorized(err) {
		f.viewer.expire()
	}
	if changed {
		f.wake()
	}
}

// begin lets pages that wait for the first list continue. f.mu is held.
func (f *feed) begin() {
	select {
	case <-f.begun:
	default:
		close(f.begun)
	}
}

// touch notes that somebody looks.
func (f *feed) touch() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.used = time.Now()
}

// idle reports whether nobody has looked for longer than most.
func (f *feed) idle(most time.Duration) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.heard() && time.Since(f.used) > most
}

func isRefused(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) }

// clock returns a time of today for people.
func clock(t time.Time) string {
	if t.IsZero() {
		return "no time yet"
	}
	return t.UTC().Format("15:04:05 MST")
}

// Refusal is an error for a viewer whose rights do not suffice.
type Refusal struct{ text string }

func (r Refusal) Error() string { return r.text }

// errSignedOut means that the API server does not accept the credentials of the viewer any more.
var errSignedOut = errors.New("the API server does not accept your credentials any more: sign in again")
