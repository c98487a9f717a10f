package hook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	corev1 "k8s.io/api/core/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// defaultTimeout is the timeout of a command without one of its own.
const defaultTimeout = 30 * time.Second

// fromAnnotations replaces the name of a hook in the annotations of a pod.
const fromAnnotations = "<from-annotation>"

// command is one command of a hook.
type command struct {
	hook      string // name in the spec, or fromAnnotations
	container string // empty for the first container of the pod
	words     []string
	stops     bool // onError Fail: a failure prevents the following commands
	timeout   time.Duration
}

func (c command) String() string {
	if c.hook == fromAnnotations {
		return "hook of its annotations"
	}
	return "hook " + c.hook
}

// annotated holds the annotations of a pod that describe a hook; complain is called for invalid values.
type annotated struct {
	prefix   string // such as "pre.hook.backup.velero.io/"
	values   map[string]string
	complain func(text string)
}

// command returns the command of a hook in annotations, and false if there is none. timeout is the name of the
// annotation with the timeout.
func (a annotated) command(timeout string, onError velerov1.HookErrorMode) (command, bool) {
	text := a.values[a.prefix+"command"]
	if text == "" {
		return command{}, false
	}
	c := command{hook: fromAnnotations, container: a.values[a.prefix+"container"], words: []string{text},
		timeout: defaultTimeout}
	if strings.HasPrefix(text, "[") {
		var words []string
		if json.Unmarshal([]byte(text), &words) == nil { // otherwise the text is one word
			c.words = words
		}
	}
	switch mode := velerov1.HookErrorMode(a.values[a.prefix+"on-error"]); mode {
	case velerov1.HookErrorModeContinue, velerov1.HookErrorModeFail:
		onError = mode
	case "":
	default:
		a.complain(fmt.Sprintf("annotation %son-error: %q is neither Continue nor Fail; it is taken for %s", a.prefix, mode,
			onError))
	}
	c.stops = onError == velerov1.HookErrorModeFail
	if limit := a.duration(timeout); limit > 0 {
		c.timeout = limit
	}
	return c, true
}

// duration returns the value of an annotation, or 0 if there is no valid one.
func (a annotated) duration(name string) time.Duration {
	text := a.values[a.prefix+name]
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		a.complain(fmt.Sprintf("annotation %s%s: %q is not a duration such as 90s; it is ignored", a.prefix, name, text))
		return 0
	}
	return d
}

// run runs the command in a container of the pod. A completed pod needs no hooks, so run does nothing for it.
func (c command) run(ctx context.Context, x *Executor, pod *corev1.Pod, log hclog.Logger) error {
	in, err := container(pod, c.container)
	log = log.With("namespace", pod.Namespace, "pod", pod.Name, "container", in, "hook", c.hook)
	switch {
	case err != nil:
	case len(c.words) == 0:
		err = errors.New("it has no command")
	case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
		log.Info("hook not run, because its pod has completed", "phase", string(pod.Status.Phase))
		return nil
	default:
		log.Info("running a hook", "command", strings.Join(c.words, " "), "timeout", c.timeout.String())
		var result *ran
		began := time.Now()
		result, err = x.run(ctx, call{namespace: pod.Namespace, pod: pod.Name, container: in, command: c.words,
			timeout: c.timeout})
		details := []any{"seconds", time.Since(began).Seconds()}
		if result != nil {
			details = append(details, "stdout", result.stdout.String(), "stderr", result.stderr.String())
		}
		if err == nil {
			log.Info("hook done", details...)
		} else {
			log = log.With(details...)
		}
	}
	if err != nil {
		err = fmt.Errorf("%s failed in pod %s/%s: %w", c, pod.Namespace, pod.Name, err)
		log.Error(err.Error())
	}
	return err
}

func positive(d time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return defaultTimeout
}
