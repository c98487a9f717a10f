package hook

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cleat-dev/cleat/server/internal/kube/shorten"
)

// Pod is a restored pod.
type Pod struct {
	Namespace, Name     string
	UID                 types.UID
	Labels, Annotations map[string]string
}

// waiting is a command that waits for its container.
type waiting struct {
	command
	index int           // among the hooks of the pod
	limit time.Duration // waitTimeout; 0 for none
	ready bool          // requires a ready container, not only a running one
}

// podRun runs the hooks of one restored pod.
type podRun struct {
	restore *Restore
	pod     Pod
	open    []waiting // that have not run
	mark    mark
	since   time.Time
	log     hclog.Logger
}

// run returns when each hook has run or cannot run any more. A hook that a stopped server has begun is not run again.
func (p *podRun) run() {
	found, _ := markOf(p.pod.Annotations, p.restore.uid)
	p.mark = mark{Restore: p.restore.uid, Ended: map[int]string{}}
	p.open = slices.DeleteFunc(p.open, func(w waiting) bool {
		text, ended := found.Ended[w.index]
		switch {
		case ended && text == "":
			p.mark.Ended[w.index] = ""
		case ended:
			p.end(w, errors.New(text))
		case slices.Contains(found.Begun, w.index):
			p.end(w, fmt.Errorf("%s in pod %s/%s was running when the server was stopped; it is unknown whether it ended, "+
				"and it is not run again",
				w.command, p.pod.Namespace, p.pod.Name))
		default:
			return false
		}
		return true
	})
	if err := p.save(); err != nil {
		p.endAll(err)
		return
	}
	p.wait()
}

// wait waits for containers and runs their hooks.
func (p *podRun) wait() {
	ctx := p.restore.waiting
	w := p.restore.watch(p.pod.Namespace)
	changes, stop := w.follow(p.pod.UID)
	defer stop()
	defer p.restore.waits.Begin("the hooks of pod %s/%s, for which its containers must be up", p.pod.Namespace,
		p.pod.Name).End()
	seen := false
	for len(p.open) > 0 {
		now := w.find(p.pod)
		var err error
		switch {
		case ctx.Err() != nil:
			err = context.Cause(ctx)
		case now != nil:
			seen = true
		case seen:
			err = errGone
		case time.Since(p.since) > unseen:
			now, err = w.ask(ctx, p.pod)
		}
		if now != nil && (now.Status.Phase == corev1.PodSucceeded || now.Status.Phase == corev1.PodFailed) {
			err = fmt.Errorf("the pod entered phase %s before", now.Status.Phase)
		}
		if err != nil {
			p.endAll(err)
			return
		}
		p.expire()
		if len(p.open) == 0 || now != nil && p.runNext(now) {
			continue
		}
		timer := time.NewTimer(p.pause())
		select {
		case <-changes:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// pause returns the time after which wait checks the pod again even if the pod has not changed.
func (p *podRun) pause() time.Duration {
	next := unseen
	for _, w := range p.open {
		if w.limit > 0 {
			next = min(next, time.Until(p.since.Add(w.limit)))
		}
	}
	return max(next, time.Millisecond)
}

// expire gives up the hooks whose containers did not start in time.
func (p *podRun) expire() {
	p.open = slices.DeleteFunc(p.open, func(w waiting) bool {
		if w.limit <= 0 || time.Since(p.since) < w.limit {
			return false
		}
		state := "running"
		if w.ready {
			state = "ready"
		}
		p.notRun(w, fmt.Errorf("its container was not %s within %s (waitTimeout)", state, w.limit))
		return true
	})
}

// runNext runs the first hook whose container is up, and reports whether there is one.
func (p *podRun) runNext(pod *corev1.Pod) bool {
	for i, w := range p.open {
		in, err := container(pod, w.container)
		if err == nil && !p.isUp(pod, in) {
			continue
		}
		p.open = slices.Delete(p.open, i, i+1)
		if err != nil {
			p.notRun(w, err)
		} else {
			p.execute(w, pod)
		}
		return true
	}
	return false
}

// isUp reports whether a container is running, or ready if one of its hooks waits for that.
func (p *podRun) isUp(pod *corev1.Pod, name string) bool {
	ready := slices.ContainsFunc(p.open, func(w waiting) bool {
		in, err := container(pod, w.container)
		return err == nil && in == name && w.ready
	})
	for _, list := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for i := range list {
			if status := &list[i]; status.Name == name {
				return status.State.Running != nil && (status.Ready || !ready)
			}
		}
	}
	return false
}

// execute runs one hook, between two marks.
func (p *podRun) execute(w waiting, pod *corev1.Pod) {
	free, err := p.restore.slot()
	if err != nil {
		p.notRun(w, err)
		return
	}
	defer free()
	p.mark.Begun = []int{w.index}
	if err := p.save(); err != nil {
		p.notRun(w, err)
		return
	}
	err = w.run(p.restore.life, p.restore.all.executor, pod, p.log)
	if p.restore.life.Err() != nil {
		p.fail(err) // the mark has it as begun
		return
	}
	p.mark.Begun = nil
	p.end(w, err)
	_ = p.save() // the hook has run, whatever the state of the pod
	if err != nil && w.stops {
		p.restore.halt(fmt.Errorf("a hook with onError Fail has failed before: %w", err))
	}
}

// end records that a hook has ended.
func (p *podRun) end(w waiting, err error) {
	p.mark.Ended[w.index] = ""
	if err != nil {
		p.mark.Ended[w.index] = shorten.Text(err.Error(), 2*maxReason)
	}
	p.fail(err)
}

func (p *podRun) fail(err error) {
	if err != nil {
		p.restore.failed(p.pod.Namespace, err)
	}
}

// notRun records that a hook does not run.
func (p *podRun) notRun(w waiting, why error) {
	err := fmt.Errorf("%s was not run in pod %s/%s: %w", w.command, p.pod.Namespace, p.pod.Name, why)
	p.log.Error(err.Error())
	p.fail(err)
}

func (p *podRun) endAll(why error) {
	for _, w := range p.open {
		p.notRun(w, why)
	}
	p.open = nil
}

// save writes the mark. It returns an error if the pod was deleted or the hooks must end. A mark that cannot be written
// for another reason is only logged, and the hooks run without it.
func (p *podRun) save() error {
	err := p.mark.write(p.restore.life, p.restore.all.executor, p.pod)
	if err == nil || errors.Is(err, errGone) || p.restore.life.Err() != nil {
		return err
	}
	p.log.Warn("a server that takes over may run hooks again", "namespace", p.pod.Namespace, "pod", p.pod.Name, "error",
		err)
	return nil
}
