package rehearsals

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/cleat-dev/cleat/server/internal/bucket/rehearsal"
	"github.com/cleat-dev/cleat/server/internal/engine/hook"
	"github.com/cleat-dev/cleat/server/internal/kube/shorten"
)

// checksAtOnce is the number of checks of a rehearsal that run at once.
const checksAtOnce = 8

// check runs the checks of pods, in the order of which it returns the results. A check may run again if the server is
// stopped before the report is stored.
func (r *Controller) check(ctx context.Context, s state, pods []corev1.Pod) ([]rehearsal.Check, error) {
	sources := map[string]string{}
	for source, name := range s.Namespaces {
		sources[name] = source
	}
	type work struct {
		pod   *corev1.Pod
		check *hook.Check
	}
	var all []work
	for i := range pods {
		if c, ok := hook.CheckOf(&pods[i]); ok {
			all = append(all, work{&pods[i], c})
		}
	}
	results := make([]rehearsal.Check, len(all))
	slots := make(chan struct{}, checksAtOnce)
	var running sync.WaitGroup
	for i, one := range all {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			began := time.Now()
			err := one.check.Run(ctx, r.Executor, one.pod)
			results[i] = rehearsal.Check{Namespace: sources[one.pod.Namespace], Pod: one.pod.Name,
				Container: one.check.Container, Command: one.check.Command, Seconds: rehearsal.Seconds(time.Since(began))}
			if err != nil {
				results[i].Error = shorten.Text(err.Error(), maxReason)
			}
		})
	}
	running.Wait()
	return results, ctx.Err()
}
