package hook

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/spec/filter"
)

// Moment is when a hook of a backup runs.
type Moment string

// The hooks of all pods of a block run before its first object is backed up, and after its last one.
const (
	Pre  Moment = "pre"
	Post Moment = "post"
)

// Backup runs the hooks of one backup. It is safe for concurrent use.
type Backup struct {
	executor *Executor
	hooks    []backupHook

	mu     sync.Mutex
	counts velerov1.HookStatus
}

// backupHook is a hook of the spec that applies to pods.
type backupHook struct {
	selector
	name     string
	commands map[Moment][]command
	met      *atomic.Bool // set if a pod has the hook
}

// NewBackup returns the hooks of a backup. resolve finds a resource by one of its names.
func NewBackup(
	spec *velerov1.BackupHooks, executor *Executor, resolve func(name string) (schema.GroupResource, bool),
) (*Backup, error) {
	b := &Backup{executor: executor}
	for i := range spec.Resources {
		s := &spec.Resources[i]
		selected, err := newSelector(s.IncludedNamespaces, s.ExcludedNamespaces, s.LabelSelector)
		if err != nil {
			return nil, fmt.Errorf("hook %s: %w", s.Name, err)
		}
		resources, err := filter.NewNames(resolved(s.IncludedResources, resolve), resolved(s.ExcludedResources, resolve))
		if err != nil {
			return nil, fmt.Errorf("hook %s: resources: %w", s.Name, err)
		}
		if resources.Match("pods") {
			b.hooks = append(b.hooks,
				backupHook{selected, s.Name, map[Moment][]command{Pre: commandsOf(s.Name, s.PreHooks),
					Post: commandsOf(s.Name, s.PostHooks)}, new(atomic.Bool)})
		}
	}
	return b, nil
}

// Unmatched returns the names of the hooks in the spec that matched no pod so far.
func (b *Backup) Unmatched() []string {
	var names []string
	for _, h := range b.hooks {
		if !h.met.Load() {
			names = append(names, h.name)
		}
	}
	return names
}

// resolved returns the plural names of resources. Globs and unknown names are returned unchanged.
func resolved(names []string, resolve func(string) (schema.GroupResource, bool)) []string {
	names = slices.Clone(names)
	for i, name := range names {
		if gr, ok := resolve(name); ok {
			names[i] = gr.String()
		}
	}
	return names
}

func commandsOf(name string, hooks []velerov1.BackupResourceHook) []command {
	var all []command
	for _, h := range hooks {
		if h.Exec != nil {
			all = append(all, command{
				hook: name, container: h.Exec.Container, words: h.Exec.Command,
				stops: h.Exec.OnError != velerov1.HookErrorModeContinue, timeout: positive(h.Exec.Timeout.Duration),
			})
		}
	}
	return all
}

// Concern reports whether a pod with these labels and annotations has hooks.
func (b *Backup) Concern(namespace string, labels, annotations map[string]string) bool {
	quiet := func(string) {}
	return len(b.commands(Pre, namespace, labels, annotations, quiet))+
		len(b.commands(Post, namespace, labels, annotations, quiet)) > 0
}

// commands returns the commands to run in a pod. A hook in its annotations replaces all hooks of the spec.
func (b *Backup) commands(
	when Moment, namespace string, labels, annotations map[string]string, complain func(string),
) []command {
	prefixes := []string{string(when) + ".hook.backup.velero.io/"}
	if when == Pre {
		prefixes = append(prefixes, "hook.backup.velero.io/") // the name before post hooks were added
	}
	for _, prefix := range prefixes {
		own := annotated{prefix: prefix, values: annotations, complain: complain}
		if c, ok := own.command("timeout", velerov1.HookErrorModeFail); ok {
			return []command{c}
		}
	}
	var all []command
	for _, h := range b.hooks {
		if h.matches(namespace, labels) {
			h.met.Store(true)
			all = append(all, h.commands[when]...)
		}
	}
	return all
}

// Run runs the pre or post hooks of a pod, one after the other. It returns the failures. stopped is set if a failed
// hook has onError Fail: the hooks after it were not run, and after a pre hook the pod must not be backed up.
func (b *Backup) Run(
	ctx context.Context, when Moment, pod *corev1.Pod, log hclog.Logger,
) (failures []error, stopped bool) {
	log = log.With("when", string(when))
	commands := b.commands(when, pod.Namespace, pod.Labels, pod.Annotations, func(text string) {
		log.Warn(text, "namespace", pod.Namespace, "pod", pod.Name)
	})
	for _, c := range commands {
		if err := c.run(ctx, b.executor, pod, log); err != nil {
			failures = append(failures, fmt.Errorf("%s %w", when, err))
			if c.stops {
				stopped = true
				break
			}
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counts.HooksAttempted += len(commands) // as in Velero, including those that a failure has prevented
	b.counts.HooksFailed += len(failures)
	return failures, stopped
}

// Status returns the numbers of hooks that were attempted and that have failed so far.
func (b *Backup) Status() velerov1.HookStatus {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.counts
}
