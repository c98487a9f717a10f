package backup

import (
	"context"
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/cleat-dev/cleat/server/internal/engine/hook"
	"github.com/cleat-dev/cleat/server/internal/kube/item"
	"github.com/cleat-dev/cleat/server/internal/kube/panics"
	"github.com/cleat-dev/cleat/server/internal/kube/waits"
)

// lastHooks is how long the post hooks of a block may take after the backup was ended early.
const lastHooks = 15 * time.Second

// hooked reports whether an object is a pod with hooks.
func (e *engine) hooked(o object, meta item.Meta) bool {
	return e.hooks != nil && o.resource.GroupResource() == podsResource && !o.resource.NotPreferred &&
		e.hooks.Concern(meta.Namespace, meta.Labels, meta.Annotations)
}

// preHooks runs the pre hooks of the pods in a block that are not in the backup yet. If a hook with onError Fail
// fails, its pod is left out of the backup. preHooks returns the pods whose post hooks must run, also with an error.
func (e *engine) preHooks(ctx context.Context, b *block) (pods []*corev1.Pod, err error) {
	if !b.hooked {
		return nil, nil
	}
	for i := range b.objects {
		o := &b.objects[i]
		if o.resource.GroupResource() != podsResource {
			continue
		}
		if err := e.read(ctx, o); err != nil {
			return pods, err
		}
		meta, err := item.ParseMeta(o.raw)
		if o.missing || err != nil || !e.hooked(*o, meta) || e.exclusion(*o, meta) != "" {
			continue
		}
		key := e.seen.keyOf(o.resource, meta.Namespace, meta.Name)
		if e.seen.has(key) || o.listed && !o.assigned && e.seen.isAssigned(key) {
			continue // another block has it
		}
		pod := new(corev1.Pod)
		if err := json.Unmarshal(o.raw, pod); err != nil {
			e.record.failed(podsResource, meta.Namespace, meta.Name, "its hooks are not run, because it cannot be read", err)
			e.log.Error("the hooks of a pod are not run, because it cannot be read", "namespace", meta.Namespace, "name",
				meta.Name, "error", err)
			continue
		}
		stopped := e.runHooks(ctx, hook.Pre, pod)
		switch {
		case ctx.Err() != nil: // the hook may have run
			return append(pods, pod), ctx.Err()
		case stopped:
			e.seen.add(key)
			const text = "not backed up, because of its pre hook"
			e.record.failed(podsResource, meta.Namespace, meta.Name, text, nil)
			e.log.Error("pod "+text, "namespace", meta.Namespace, "name", meta.Name)
		default:
			pods = append(pods, pod)
		}
	}
	return pods, nil
}

// endHooks runs the post hooks of pods when the volumes of these pods are backed up. The worker does not wait for
// that.
func (e *engine) endHooks(ctx context.Context, pods []*corev1.Pod) {
	ids := e.volumes.runningIn(pods)
	if len(ids) == 0 {
		e.postHooks(ctx, pods)
		return
	}
	e.later.Go(func() {
		e.awaitVolumes(ctx, ids)
		e.postHooks(ctx, pods)
	})
}

// postHooks runs the post hooks of pods, for a limited time also after ctx has ended: a workload that a pre hook has
// stopped must resume.
func (e *engine) postHooks(ctx context.Context, pods []*corev1.Pod) {
	if len(pods) == 0 {
		return
	}
	longer, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() {
		time.AfterFunc(lastHooks, func() { cancel(context.Cause(ctx)) })
	})()
	for _, pod := range pods {
		err := panics.Catch(e.log, func() error { e.runHooks(longer, hook.Post, pod); return nil })
		if err != nil {
			e.record.failed(podsResource, pod.Namespace, pod.Name, "", err)
		}
	}
}

// runHooks runs hooks of a pod and records their failures as errors of the pod.
func (e *engine) runHooks(ctx context.Context, when hook.Moment, pod *corev1.Pod) (stopped bool) {
	defer waits.Begin(ctx, "the %s hooks of pod %s/%s", when, pod.Namespace, pod.Name).End()
	failures, stopped := e.hooks.Run(ctx, when, pod, e.log)
	for _, err := range failures {
		e.record.failed(podsResource, pod.Namespace, pod.Name, "", err)
	}
	return stopped
}
