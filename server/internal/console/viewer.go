package console

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	authenticationv1client "k8s.io/client-go/kubernetes/typed/authentication/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// feedIdle is how long a feed or an answer is kept after the last look, for the next page.
	feedIdle = time.Minute
	// viewerIdle is how long a viewer is known after the last request, if no page is open.
	viewerIdle = 30 * time.Minute
	sweepPause = 15 * time.Second
	mostWaits  = 20 * time.Second
	// mostAsked is about how many new viewers the API server is asked at once.
	mostAsked = 32
)

// Viewer is a person who looks. Its client has exactly the rights of that person.
type Viewer struct {
	client.WithWatch
	Namespace string                    // of the server
	Pods      corev1client.PodInterface // of that namespace, for their logs
	User      string                    // as the API server calls it; "" if it does not say

	key     string
	pool    *pool
	shelf   *shelf
	recheck time.Duration
	ctx     context.Context // ends with the viewer
	expire  func()          // ends it

	mu        sync.Mutex
	feeds     map[string]*feed
	questions map[string]*question
	memory    map[string]*kept
	open      int  // pages that are kept current
	leaving   bool // the viewer ends with the last open page
	used      time.Time
}

// List returns the objects of a kind as the viewer of a look may see them, sorted by namespace and name. An error is a
// sentence for people; it may come with objects that were current before. Nobody may change the objects.
func List[T client.Object](l *Look, kind Kind) ([]T, error) {
	f := l.feed(kind)
	l.made(f)
	var objects []T
	err := f.list(l.Request.Context(), func(count int) { objects = make([]T, 0, count) }, func(o client.Object) {
		if one, ok := o.(T); ok {
			objects = append(objects, one)
		}
	})
	return objects, err
}

// Watch has an open page made again when an object of a kind changes.
func Watch(l *Look, kind Kind) {
	f := l.feed(kind)
	f.touch()
	l.made(f)
}

// kept is something that a viewer keeps between looks.
type kept struct {
	value any
	used  time.Time
}

// Keep returns what a viewer keeps between looks under a key. The first look makes it; it is dropped when nobody has
// looked for a while.
func Keep[T any](l *Look, key string, first func() T) T {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.memory == nil {
		l.memory = map[string]*kept{}
	}
	k := l.memory[key]
	if k == nil {
		k = &kept{value: first()}
		l.memory[key] = k
	}
	k.used = time.Now()
	value, _ := k.value.(T) // a key has one type
	return value
}

func (v *Viewer) feed(kind Kind) *feed {
	v.mu.Lock()
	defer v.mu.Unlock()
	f := v.feeds[kind.Name]
	if f == nil {
		f = startFeed(v.ctx, v, kind)
		v.feeds[kind.Name] = f
	}
	return f
}

func (v *Viewer) question(key string) *question {
	v.mu.Lock()
	defer v.mu.Unlock()
	q := v.questions[key]
	if q == nil {
		q = &question{used: time.Now()}
		v.questions[key] = q
	}
	return q
}

// in names the namespace of a kind at the end of a sentence.
func (v *Viewer) in(kind Kind) string {
	if kind.Everywhere {
		return ""
	}
	return " in namespace " + v.Namespace
}

// May asks the API server whether the viewer may do something in the namespace of the server. It returns nil, or a
// Refusal that says what they may not do. resource may have a part, as in "pods/log".
func (v *Viewer) May(ctx context.Context, verb, group, resource, name string) error {
	of, part, _ := strings.Cut(resource, "/")
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: v.Namespace, Verb: verb, Group: group, Resource: of, Subresource: part, Name: name},
	}}
	if err := v.Create(ctx, review); err != nil {
		return fmt.Errorf("ask whether you may %s %s: %w", verb, resource, err)
	}
	if !review.Status.Allowed {
		return Refusal{fmt.Sprintf("you may not %s %s in namespace %s", verb, resource, v.Namespace)}
	}
	return nil
}

// keep notes that a page of the viewer is kept current, until done is called.
func (v *Viewer) keep() (done func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.open++
	return func() {
		v.mu.Lock()
		v.open--
		v.used = time.Now()
		ends := v.leaving && v.open == 0
		v.mu.Unlock()
		if ends {
			v.expire()
		}
	}
}

// leave ends the viewer, or has it end with the last open page, unless there is another request before.
func (v *Viewer) leave() {
	v.mu.Lock()
	v.leaving = true
	ends := v.open == 0
	v.mu.Unlock()
	if ends {
		v.expire()
	}
}

// sweep ends what nobody has looked at for a while. It reports whether the viewer was seen lately.
func (v *Viewer) sweep() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	maps.DeleteFunc(v.feeds, func(_ string, f *feed) bool {
		idle := f.idle(feedIdle)
		if idle {
			f.stop()
		}
		return idle
	})
	maps.DeleteFunc(v.memory, func(_ string, k *kept) bool { return time.Since(k.used) > feedIdle })
	maps.DeleteFunc(v.questions, func(_ string, q *question) bool { return q.idle(feedIdle) })
	return v.open > 0 || time.Since(v.used) < viewerIdle
}

// viewers are all who have looked lately, by a key that only they can make.
type viewers struct {
	namespace string
	scheme    *runtime.Scheme
	mapper    meta.RESTMapper
	recheck   time.Duration
	gone      func(key string) // is called when a viewer is dropped
	asked     chan struct{}    // has room for mostAsked

	pool  pool
	shelf shelf
	mu    sync.Mutex
	all   map[string]*Viewer
}

// get returns the viewer for a visitor. A new one costs nothing until the API server has accepted it, unless it is
// trusted.
func (v *viewers) get(ctx context.Context, who *visitor) (*Viewer, error) {
	key := who.key
	v.mu.Lock()
	known := v.all[key]
	v.mu.Unlock()
	if known != nil {
		known.mu.Lock()
		known.used, known.leaving = time.Now(), false
		known.mu.Unlock()
		return known, nil
	}
	user, err := v.identify(ctx, who.config)
	switch {
	case err == nil:
	case apierrors.IsNotFound(err): // an API server that has accepted it, and cannot say who it is
	case who.trusted && !isRefused(err):
	default:
		return nil, err
	}
	config := rest.CopyConfig(who.config)
	config.QPS = -1 // people click slowly; the default of 5 a second would delay a page by seconds
	transport, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", config.Host, err)
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: v.scheme, Mapper: v.mapper, HTTPClient: transport})
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", config.Host, err)
	}
	core, err := corev1client.NewForConfigAndClient(config, transport)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", config.Host, err)
	}
	viewing, stop := context.WithCancel(context.WithoutCancel(ctx))
	viewer := &Viewer{WithWatch: c, Namespace: v.namespace, Pods: core.Pods(v.namespace), key: key, pool: &v.pool,
		shelf: &v.shelf, recheck: v.recheck,
		User: user, ctx: viewing, feeds: map[string]*feed{}, questions: map[string]*question{}, used: time.Now()}
	viewer.expire = sync.OnceFunc(func() {
		stop()
		v.drop(key)
	})
	v.mu.Lock()
	defer v.mu.Unlock()
	if other := v.all[key]; other != nil { // a request at the same time was faster
		stop()
		return other, nil
	}
	if v.all == nil {
		v.all = map[string]*Viewer{}
	}
	v.all[key] = viewer
	return viewer, nil
}

// identify asks the API server who has the rights of a configuration.
func (v *viewers) identify(ctx context.Context, config *rest.Config) (user string, err error) {
	ctx, cancel := context.WithTimeout(ctx, mostWaits)
	defer cancel()
	select {
	case v.asked <- struct{}{}:
		defer func() { <-v.asked }()
	case <-ctx.Done():
		return "", fmt.Errorf("ask the API server who you are: it answers slowly: %w", ctx.Err())
	}
	c, err := authenticationv1client.NewForConfig(config)
	if err != nil {
		return "", fmt.Errorf("connect to %s: %w", config.Host, err)
	}
	review, err := c.SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("ask the API server who you are: %w", err)
	}
	return review.Status.UserInfo.Username, nil
}

// leave ends the viewer with a key, who has signed out everywhere, as Viewer.leave does.
func (v *viewers) leave(key string) {
	v.mu.Lock()
	viewer := v.all[key]
	v.mu.Unlock()
	if viewer != nil {
		viewer.leave()
	}
}

func (v *viewers) drop(key string) {
	v.mu.Lock()
	delete(v.all, key)
	v.mu.Unlock()
	v.gone(key)
}

// run ends, until ctx does, what nobody looks at any more.
func (v *viewers) run(ctx context.Context) {
	tick := time.NewTicker(sweepPause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		v.shelf.sweep()
		v.mu.Lock()
		var away []*Viewer
		for _, viewer := range v.all {
			if !viewer.sweep() {
				away = append(away, viewer)
			}
		}
		v.mu.Unlock()
		for _, viewer := range away {
			viewer.expire()
		}
	}
}

// newMapper returns the resources of the kinds of a scheme, so that no viewer asks the API server for them.
func newMapper(scheme *runtime.Scheme) meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(scheme.PreferredVersionAllGroups())
	for gvk := range scheme.AllKnownTypes() {
		scope := meta.RESTScopeNamespace
		if clusterScoped[gvk.Kind] {
			scope = meta.RESTScopeRoot
		}
		mapper.Add(gvk, scope)
	}
	return mapper
}

// clusterScoped are the kinds without a namespace that the console uses.
var clusterScoped = map[string]bool{"Namespace": true, "SelfSubjectAccessReview": true,
	"PersistentVolume": true}
