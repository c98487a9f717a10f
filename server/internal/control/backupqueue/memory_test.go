package backupqueue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/plugins/queueadmission/namespaceoverlap"
	"github.com/cleat-dev/cleat/versioning/queueadmission"
)

// memory is an API server in memory, with the caches and the work queue of one server. Everything happens in one
// goroutine: whenever the queue reads, decides or writes, a random number of steps comes first. Each step brings an
// event to a cache, an event to a handler, or a change by a user. So the seed determines the sequence.
type memory struct {
	model *model

	version uint64
	uids    int
	backups map[string]*velerov1.Backup // by name; never changed in place
	spaces  map[string]bool             // the existing namespaces
	server  *memoryServer               // nil if none runs
}

// memoryServer is a server with a queue.
type memoryServer struct {
	queue       *watchedQueue
	backups     informer[*velerov1.Backup]
	namespaces  informer[*metav1.PartialObjectMetadata]
	requested   bool // a decision
	reconciling bool
	held        bool // the events of Backups
}

// informer is a cache with its handler. An event reaches first the cache and later the handler.
type informer[T client.Object] struct {
	cache   map[string]T
	coming  []change[T]
	told    []func() // the calls of the handler that are due
	handler handler.EventHandler
	pending requests
}

type change[T client.Object] struct {
	kind   watch.EventType
	object T
}

// newMemoryModel prepares a model in memory.
func newMemoryModel(t *testing.T, seed uint64, admission decider, f flaw) *model {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, seed))
	m := &model{t: t, random: random, flaw: f, spaces: map[string]bool{}, observer: newObserver(randomRules(random))}
	p := &memory{model: m, backups: map[string]*velerov1.Backup{}, spaces: map[string]bool{}}
	m.plane, m.end = p, func() {}
	m.admission = decides(func(ctx context.Context, snapshot *queueadmission.Snapshot) (*queueadmission.Decision, error) {
		p.between(false)
		decision, err := admission.Decide(ctx, snapshot)
		p.between(false)
		return decision, err
	})
	m.observer.step, m.observer.unfinished = p.step, func() bool { return len(m.later) > 0 }
	m.start()
	return m
}

func (p *memory) name() string { return "memory" }

// emit emits an event for a state of a Backup. The observer gets it at once.
func (p *memory) emit(kind watch.EventType, b *velerov1.Backup) {
	if p.server != nil {
		p.server.backups.coming = append(p.server.backups.coming, change[*velerov1.Backup]{kind, b})
	}
	p.model.observer.sees(kind, b)
}

func (p *memory) nextVersion() string {
	p.version++
	return strconv.FormatUint(p.version, 10)
}

func (p *memory) create(b *velerov1.Backup) {
	p.uids++
	b.UID, b.ResourceVersion, b.Namespace = types.UID(fmt.Sprint("uid-", p.uids)), p.nextVersion(), p.name()
	b.CreationTimestamp = metav1.NewTime(time.Date(2026, 3, 4, 12, 0, int(p.version/8), 0, time.UTC)) //nolint:gosec // a small number
	stored := b.DeepCopy()
	p.backups[b.Name] = stored
	p.emit(watch.Added, stored)
}

// store replaces a Backup with a new state, unless the two are equal, and returns the current state.
func (p *memory) store(wanted *velerov1.Backup) *velerov1.Backup {
	current := p.backups[wanted.Name]
	wanted = wanted.DeepCopy()
	wanted.ResourceVersion = current.ResourceVersion
	if equality.Semantic.DeepEqual(current, wanted) {
		return current
	}
	wanted.ResourceVersion = p.nextVersion()
	if wanted.DeletionTimestamp != nil && len(wanted.Finalizers) == 0 {
		delete(p.backups, wanted.Name)
		p.emit(watch.Deleted, wanted)
		return wanted
	}
	p.backups[wanted.Name] = wanted
	p.emit(watch.Modified, wanted)
	return wanted
}

// write implements plane. b is the current state, because the observer has received it.
func (p *memory) write(_, changed *velerov1.Backup) {
	if p.backups[changed.Name] != nil {
		*changed = *p.store(changed)
	}
}

func (p *memory) remove(b *velerov1.Backup) {
	current := p.backups[b.Name]
	switch {
	case current == nil || current.DeletionTimestamp != nil:
	case len(current.Finalizers) > 0:
		dying := current.DeepCopy()
		dying.DeletionTimestamp = new(metav1.NewTime(current.CreationTimestamp.Add(time.Hour)))
		p.store(dying)
	default:
		last := current.DeepCopy()
		last.ResourceVersion = p.nextVersion()
		delete(p.backups, b.Name)
		p.emit(watch.Deleted, last)
	}
}

func (p *memory) makeNamespace(name string) {
	p.spaces[name] = true
	p.emitNamespace(watch.Added, name)
}

func (p *memory) endNamespace(name string) { p.emitNamespace(watch.Modified, name) }

func (p *memory) removeNamespace(name string, _ bool) {
	delete(p.spaces, name)
	p.emitNamespace(watch.Deleted, name)
}

func (p *memory) emitNamespace(kind watch.EventType, name string) {
	if p.server != nil {
		p.server.namespaces.coming = append(p.server.namespaces.coming,
			change[*metav1.PartialObjectMetadata]{kind, p.namespace(name)})
	}
}

func (p *memory) namespace(name string) *metav1.PartialObjectMetadata {
	namespace := namespaceMetadata()
	namespace.Name, namespace.UID = name, types.UID(name)
	return namespace
}

// start starts a server, whose caches hold the current state.
func (p *memory) start(newQueue func(client.Client, client.Reader) *watchedQueue, f flaw) {
	s := &memoryServer{}
	s.queue = newQueue(&memoryClient{memory: p}, &memoryClient{memory: p, live: true})
	onBackup := s.queue.onBackup()
	if f.watch != nil {
		onBackup = f.watch(s.queue.Controller, onBackup)
	}
	pending := &memoryRequests{server: s}
	s.backups = newInformer[*velerov1.Backup](s.queue.heardOf(onBackup), pending)
	for _, name := range slices.Sorted(maps.Keys(p.backups)) {
		s.backups.take(change[*velerov1.Backup]{watch.Added, p.backups[name]})
	}
	s.namespaces = newInformer[*metav1.PartialObjectMetadata](s.queue.heardOf(s.queue.onNamespace()), pending)
	for _, name := range slices.Sorted(maps.Keys(p.spaces)) {
		s.namespaces.take(change[*metav1.PartialObjectMetadata]{watch.Added, p.namespace(name)})
	}
	p.server = s
}

func (p *memory) stop() { p.server = nil }

func (p *memory) hold() { p.server.held = true }

func (p *memory) release() { p.server.held = false }

// relist replaces the pending events of Backups with events that lead to the current state directly, as after a broken
// watch.
func (p *memory) relist() {
	of := &p.server.backups
	of.coming = nil
	for _, name := range slices.Sorted(maps.Keys(of.cache)) {
		if p.backups[name] == nil {
			of.coming = append(of.coming, change[*velerov1.Backup]{watch.Deleted, of.cache[name]})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.backups)) {
		of.coming = append(of.coming, change[*velerov1.Backup]{watch.Modified, p.backups[name]})
	}
}

// step takes one random step out of the possible ones. It reports whether there was one.
func (p *memory) step() bool {
	s := p.server
	if s == nil {
		return p.model.takeLater()
	}
	possible := p.steps(false)
	if s.requested && !s.reconciling {
		possible = append(possible, p.reconcile)
	}
	if len(possible) == 0 {
		return false
	}
	possible[p.model.random.IntN(len(possible))]()
	return true
}

// steps returns the possible steps other than a decision. While the queue writes, its handler of Backups waits.
func (p *memory) steps(writing bool) []func() {
	s := p.server
	var possible []func()
	if len(s.backups.coming) > 0 && !s.held {
		possible = append(possible, func() {
			if p.model.random.IntN(20) == 0 {
				p.relist()
				return
			}
			s.backups.next()
		})
	}
	if len(s.backups.told) > 0 && !writing {
		possible = append(possible, s.backups.tell)
	}
	if len(s.namespaces.coming) > 0 {
		possible = append(possible, s.namespaces.next)
	}
	if len(s.namespaces.told) > 0 {
		possible = append(possible, s.namespaces.tell)
	}
	if len(p.model.later) > 0 {
		possible = append(possible, func() { p.model.takeLater() })
	}
	return possible
}

// between takes random steps while the queue waits for a reply.
func (p *memory) between(writing bool) {
	for p.server != nil && p.model.random.IntN(2) == 0 {
		possible := p.steps(writing)
		if len(possible) == 0 {
			return
		}
		possible[p.model.random.IntN(len(possible))]()
	}
}

func (p *memory) reconcile() {
	s := p.server
	s.requested, s.reconciling = false, true
	result, err := s.queue.Reconcile(p.model.t.Context(), queueRequest())
	s.reconciling = false
	if err != nil || result.RequeueAfter > 0 {
		s.requested = true
	}
}

func newInformer[T client.Object](h handler.EventHandler, pending requests) informer[T] {
	return informer[T]{cache: map[string]T{}, handler: h, pending: pending}
}

// next delivers the next event to the cache.
func (i *informer[T]) next() {
	e := i.coming[0]
	i.coming = i.coming[1:]
	i.take(e)
}

func (i *informer[T]) take(e change[T]) {
	ctx := context.Background()
	name := e.object.GetName()
	old, known := i.cache[name]
	switch {
	case e.kind == watch.Deleted && !known:
	case e.kind == watch.Deleted:
		delete(i.cache, name)
		i.told = append(i.told, func() { i.handler.Delete(ctx, event.DeleteEvent{Object: e.object}, i.pending) })
	case known:
		i.cache[name] = e.object
		i.told = append(i.told, func() {
			i.handler.Update(ctx, event.UpdateEvent{ObjectOld: old, ObjectNew: e.object}, i.pending)
		})
	default:
		i.cache[name] = e.object
		i.told = append(i.told, func() { i.handler.Create(ctx, event.CreateEvent{Object: e.object}, i.pending) })
	}
}

// tell makes the next call of the handler.
func (i *informer[T]) tell() {
	call := i.told[0]
	i.told = i.told[1:]
	call()
}

// memoryRequests is the work queue of the server.
type memoryRequests struct {
	requests
	server *memoryServer
}

// Add implements requests.
func (r *memoryRequests) Add(reconcile.Request) { r.server.requested = true }

// memoryClient is the client of the queue: it reads from the caches, or from the API server, and writes to the latter.
type memoryClient struct {
	client.Client
	memory *memory
	live   bool
}

// List implements client.Reader.
func (c *memoryClient) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	p := c.memory
	if _, none := list.(*velerov1.RestoreList); none {
		return nil
	}
	p.between(false)
	switch list := list.(type) {
	case *velerov1.BackupList:
		from := p.server.backups.cache
		if c.live {
			from = p.backups
			list.ResourceVersion = strconv.FormatUint(p.version, 10)
		}
		for _, name := range slices.Sorted(maps.Keys(from)) {
			list.Items = append(list.Items, *from[name])
		}
	case *metav1.PartialObjectMetadataList:
		for _, name := range slices.Sorted(maps.Keys(p.server.namespaces.cache)) {
			list.Items = append(list.Items, *p.server.namespaces.cache[name])
		}
	default:
		return fmt.Errorf("list %T: not implemented", list)
	}
	p.between(false)
	return nil
}

// Get implements client.Reader.
func (c *memoryClient) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	b, ok := object.(*velerov1.Backup)
	if !ok {
		return fmt.Errorf("get %T: not implemented", object)
	}
	current := c.memory.backups[key.Name]
	if current == nil {
		return apierrors.NewNotFound(velerov1.Resource("backups"), key.Name)
	}
	*b = *current.DeepCopy()
	return nil
}

// Patch stores object if it was made from the current state. The real API server gets the difference, which then has
// the same effect.
func (c *memoryClient) Patch(_ context.Context, object client.Object, _ client.Patch, _ ...client.PatchOption) error {
	p := c.memory
	p.between(true)
	err := p.patch(object)
	p.between(true)
	return err
}

func (p *memory) patch(object client.Object) error {
	wanted, ok := object.(*velerov1.Backup)
	if !ok {
		return fmt.Errorf("patch %T: not implemented", object)
	}
	switch current := p.backups[wanted.Name]; {
	case current == nil:
		return apierrors.NewNotFound(velerov1.Resource("backups"), wanted.Name)
	case current.ResourceVersion != wanted.ResourceVersion:
		return apierrors.NewConflict(velerov1.Resource("backups"), wanted.Name, errors.New("it was changed"))
	}
	*wanted = *p.store(wanted).DeepCopy()
	return nil
}

// TestAcceptQueue_ModelInMemory runs random sequences in memory.
func TestAcceptQueue_ModelInMemory(t *testing.T) {
	t.Parallel()
	const steps, workers = 50, 2
	for worker := range uint64(workers) {
		t.Run(fmt.Sprint(worker), func(t *testing.T) {
			t.Parallel()
			admission := newAdmission(t, namespaceoverlap.Name, namespaceoverlap.Register())
			for seed := worker; seed < livesInMemory; seed += workers {
				require.NoError(t, newMemoryModel(t, seed, admission, flaw{}).live(steps), "seed %d", seed)
			}
		})
	}
}
