package hook

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// Check is the command in the annotations of a pod by which a rehearsal checks it.
type Check struct {
	Container string // "" for the first one
	Command   []string
	Timeout   time.Duration
	problem   error // why it cannot be run
}

// CheckOf returns the check of a pod, and false if it has none. Annotations with invalid values make it fail.
func CheckOf(pod *corev1.Pod) (*Check, bool) {
	var problem error
	a := annotated{
		values: map[string]string{
			"command":   pod.Annotations[velerov1.RehearsalCheckAnnotation],
			"container": pod.Annotations[velerov1.RehearsalCheckContainerAnnotation],
			"timeout":   pod.Annotations[velerov1.RehearsalCheckTimeoutAnnotation],
		},
		complain: func(string) {
			problem = fmt.Errorf("annotation %s is %q, want a duration such as 90s",
				velerov1.RehearsalCheckTimeoutAnnotation, pod.Annotations[velerov1.RehearsalCheckTimeoutAnnotation])
		},
	}
	c, ok := a.command("timeout", velerov1.HookErrorModeContinue)
	if !ok {
		return nil, false
	}
	if len(c.words) == 0 {
		problem = fmt.Errorf("annotation %s has no command", velerov1.RehearsalCheckAnnotation)
	}
	return &Check{Container: c.container, Command: c.words, Timeout: c.timeout, problem: problem}, true
}

// Run runs the check in its pod. An error means that it has not passed, or that ctx has ended.
func (c *Check) Run(ctx context.Context, x *Executor, pod *corev1.Pod) error {
	if c.problem != nil {
		return c.problem
	}
	in, err := container(pod, c.Container)
	if err != nil {
		return err
	}
	if pod.Status.Phase != corev1.PodRunning {
		return errors.New("the pod is not running")
	}
	_, err = x.run(ctx, call{namespace: pod.Namespace, pod: pod.Name, container: in, command: c.Command,
		timeout: c.Timeout})
	return err
}
