package hook

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/kube/panics"
	"github.com/cleat-dev/cleat/server/internal/kube/results"
	"github.com/cleat-dev/cleat/server/internal/kube/runlog"
	"github.com/cleat-dev/cleat/server/internal/kube/waits"
)

// Restore runs the hooks of the pods of one restore. It is safe for concurrent use.
type Restore struct {
	all   *Restores
	uid   types.UID
	label string // of its pods
	hooks []restoreHook
	open  func() (*runlog.Log, error)

	life    context.Context // of commands
	end     context.CancelCauseFunc
	waiting context.Context // of hooks that have not begun
	halt    context.CancelCauseFunc
	slots   chan struct{}
	waits   *waits.List

	mu       sync.Mutex
	idle     *sync.Cond // active has become 0
	active   int        // pods at work
	closed   bool
	log      *runlog.Log // nil before the first pod
	noLog    bool        // it could not be opened
	pods     map[types.UID]bool
	watches  map[string]*watch
	counts   velerov1.HookStatus
	failures results.Result
}

// labelOf returns the label selector of the objects that a restore has created.
func labelOf(restore *velerov1.Restore) string {
	return velerov1.RestoreNameLabel + "=" + velerov1.ValidLabelValue(restore.Name)
}

// restoreHook is a hook of the spec.
type restoreHook struct {
	selector
	commands []waiting
}

// atOnce is how many commands of a restore run at the same time.
const atOnce = 32

func newRestore(all *Restores, object *velerov1.Restore, open func() (*runlog.Log, error)) (*Restore, error) {
	r := &Restore{
		all: all, uid: object.UID, label: labelOf(object), open: open,
		slots: make(chan struct{}, atOnce), waits: waits.New(), pods: map[types.UID]bool{}, watches: map[string]*watch{},
	}
	for i := range object.Spec.Hooks.Resources {
		s := &object.Spec.Hooks.Resources[i]
		selected, err := newSelector(s.IncludedNamespaces, s.ExcludedNamespaces, s.LabelSelector)
		if err != nil {
			return nil, fmt.Errorf("hook %s: %w", s.Name, err)
		}
		h := restoreHook{selector: selected}
		for _, post := range s.PostHooks {
			if e := post.Exec; e != nil {
				h.commands = append(h.commands, waiting{
					command: command{hook: s.Name, container: e.Container, words: e.Command,
						stops: e.OnError == velerov1.HookErrorModeFail, timeout: positive(e.ExecTimeout.Duration)},
					limit: max(0, e.WaitTimeout.Duration), ready: e.WaitForReady != nil && *e.WaitForReady,
				})
			}
		}
		r.hooks = append(r.hooks, h)
	}
	r.life, r.end = context.WithCancelCause(all.life)
	r.waiting, r.halt = context.WithCancelCause(r.life)
	ignore := context.AfterFunc(all.server, func() { r.halt(context.Cause(all.server)) })
	context.AfterFunc(r.life, func() { ignore() })
	r.idle = sync.NewCond(&r.mu)
	return r, nil
}

// commands returns the hooks of a pod. A hook in its annotations replaces all hooks of the spec.
func (r *Restore) commands(pod Pod, complain func(string)) []waiting {
	own := annotated{prefix: "post.hook.restore.velero.io/", values: pod.Annotations, complain: complain}
	if c, ok := own.command("exec-timeout", velerov1.HookErrorModeContinue); ok {
		return []waiting{{command: c, limit: own.duration("wait-timeout"),
			ready: pod.Annotations[own.prefix+"wait-for-ready"] == "true"}}
	}
	var all []waiting
	for _, h := range r.hooks {
		if h.matches(pod.Namespace, pod.Labels) {
			for _, w := range h.commands {
				w.index = len(all)
				all = append(all, w)
			}
		}
	}
	return all
}

// Add runs the hooks of a pod when its containers are up. It does not block. A pod may be added again.
func (r *Restore) Add(pod Pod) {
	commands := r.commands(pod, func(string) {})
	if len(commands) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pods[pod.UID] {
		return
	}
	r.pods[pod.UID] = true
	r.counts.HooksAttempted += len(commands)
	log := r.logger()
	r.waits.LogTo(log)
	r.commands(pod, func(text string) { log.Warn(text, "namespace", pod.Namespace, "pod", pod.Name) })
	run := &podRun{restore: r, pod: pod, open: commands, since: time.Now(), log: log}
	r.active++
	go func() {
		defer r.done()
		if err := panics.Catch(log, func() error { run.run(); return nil }); err != nil {
			r.failed(pod.Namespace, fmt.Errorf("the hooks of pod %s: %w", pod.Name, err))
		}
	}()
}

func (r *Restore) done() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.active--
	r.idle.Broadcast()
}

// await waits until no pod is at work.
func (r *Restore) await() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.active > 0 {
		r.idle.Wait()
	}
}

// logger returns the logger of the hooks. It opens their log.
func (r *Restore) logger() hclog.Logger {
	if r.log == nil && !r.noLog {
		log, err := r.open()
		if r.noLog = err != nil; r.noLog {
			r.failures.AddVelero(fmt.Sprintf("what hooks print is not in the log of the restore: %v", err))
		}
		r.log = log
	}
	if r.noLog {
		return hclog.NewNullLogger()
	}
	return r.log.Logger()
}

// Close ends the additions of pods.
func (r *Restore) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
}

// Cancel makes the hooks that have not begun fail for a reason.
func (r *Restore) Cancel(why error) { r.halt(why) }

// Abort ends all hooks immediately, for a reason, and returns their outcome. No pod may be added after the call.
func (r *Restore) Abort(why error) Outcome {
	r.end(why)
	r.Close()
	r.await()
	outcome, _ := r.outcome()
	return outcome
}

// Status returns the numbers of hooks that were attempted and that have failed so far.
func (r *Restore) Status() velerov1.HookStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts
}

// Waits returns the conditions for which the hooks wait.
func (r *Restore) Waits() *waits.List { return r.waits }

func (r *Restore) failed(namespace string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts.HooksFailed++
	r.failures.Add(namespace, err.Error())
}

// slot waits until a command may run.
func (r *Restore) slot() (free func(), err error) {
	select {
	case r.slots <- struct{}{}:
		return func() { <-r.slots }, nil
	case <-r.waiting.Done():
		return nil, context.Cause(r.waiting)
	}
}

func (r *Restore) watch(namespace string) *watch {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.watches[namespace]
	if w == nil {
		w = newWatch(r.life, r.all.executor, namespace, r.label)
		r.watches[namespace] = w
	}
	return w
}

// Outcome is the result of the hooks of a restore.
type Outcome struct {
	Status velerov1.HookStatus
	Errors results.Result
	Log    *runlog.Log // nil if there were no hooks
}

// outcome returns the result of the hooks so far, and whether it is final.
func (r *Restore) outcome() (Outcome, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Outcome{Status: r.counts, Errors: r.failures, Log: r.log}, r.closed && r.active == 0
}

// CloseLog removes the log of the hooks after it was stored.
func (r *Restore) CloseLog() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.log == nil {
		return nil
	}
	log := r.log
	r.log, r.noLog = nil, true
	return log.Close()
}

// fromCluster returns a restored pod.
func fromCluster(pod *corev1.Pod) Pod {
	return Pod{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Labels: pod.Labels, Annotations: pod.Annotations}
}
