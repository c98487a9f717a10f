package runs

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
)

const (
	// lookPause is the time between two looks at the pods of the server.
	lookPause = time.Second
	// endPause is the time after which a log that had an end is read again, if it seems to be that of the same container.
	endPause = 10 * time.Second
	// mostPods is the number of pods that are followed, the newest ones.
	mostPods = 8
	// longestFollowed is how much is kept of a line, in bytes.
	longestFollowed = 64 << 10
)

// Follower follows a run in the log of the server's pods, which has the lines of the run before they are stored, with
// the rights of whoever looks. Of two servers, the one that works on the run writes its lines. It reads the log of a
// container before its restart too.
type Follower struct {
	Cluster *command.Cluster
	Kind    string // of the run, "backup" or "restore"
	Name    string
	Since   time.Time // the earliest line
	// Line is called for each line of the run, by one goroutine at a time.
	Line func(line string)
	// Problem is called with a sentence about why there may be no lines, and with "" when that is over.
	Problem func(sentence string)

	mu       sync.Mutex // of Line and what follows
	sources  map[string]*source
	problems map[string]string // by the names of pods, "" for all
	said     string
}

// source is the log of a container.
type source struct {
	instance string    // the id of the container that was read last
	last     time.Time // of the last line that was read
	ended    time.Time // when the log had an end
	busy     bool
}

// Run follows until ctx ends. It returns an error if the rights do not suffice.
func (f *Follower) Run(ctx context.Context) error {
	if f.sources == nil { // it goes on where it has ended
		f.sources, f.problems = map[string]*source{}, map[string]string{}
	}
	ctx, stop := context.WithCancelCause(ctx)
	var readers sync.WaitGroup
	defer func() {
		stop(nil)
		readers.Wait()
	}()
	for {
		pods, err := f.Cluster.ServerPods(ctx)
		pods = pods[:min(mostPods, len(pods))]
		switch {
		case isRefused(err):
			return fmt.Errorf("you may not list pods in namespace %s, whose log has the lines until the run has ended",
				f.Cluster.Namespace)
		case err != nil:
			f.note("", "the API server cannot be reached, and is asked again: "+layout.OneLine(err.Error()))
		case len(pods) == 0:
			f.note("", fmt.Sprintf("no pod in namespace %s runs the server: the lines are in its own output, wherever it runs",
				f.Cluster.Namespace))
		default:
			f.note("", "")
			f.forget(pods)
		}
		for i := range pods {
			pod := &pods[i]
			container := command.ServerContainer(&pod.Spec).Name
			s := f.take(string(pod.UID) + "/" + container)
			if s == nil {
				continue
			}
			readers.Go(func() {
				if err := f.read(ctx, s, pod, container); isRefused(err) {
					stop(fmt.Errorf("you may not get pods/log in namespace %s, where the lines are until the run has ended",
						f.Cluster.Namespace))
				}
				f.leave(s)
			})
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(lookPause):
		}
	}
}

// take returns a source that is not being read, which the caller then reads, and nil for one that is.
func (f *Follower) take(key string) *source {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.sources[key]
	if s == nil {
		s = &source{}
		f.sources[key] = s
	}
	if s.busy {
		return nil
	}
	s.busy = true
	return s
}

func (f *Follower) leave(s *source) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s.busy = false
}

// read reads the log of a container until it ends, and before that the rest of the log of the container that it has
// replaced.
func (f *Follower) read(ctx context.Context, s *source, pod *corev1.Pod, container string) error {
	states := pod.Status.ContainerStatuses
	at := slices.IndexFunc(states, func(c corev1.ContainerStatus) bool { return c.Name == container })
	if at < 0 || states[at].ContainerID == "" {
		f.note(pod.Name, fmt.Sprintf("pod %s has not started yet", pod.Name))
		return nil
	}
	state := &states[at]
	if state.ContainerID == s.instance && time.Since(s.ended) < endPause {
		return nil // the next container may run already, and the status of the pod not say so yet
	}
	if state.ContainerID != s.instance && f.missed(s, state) {
		err := f.stream(ctx, s, pod.Name, corev1.PodLogOptions{Container: container, Previous: true})
		if apierrors.IsBadRequest(err) || apierrors.IsNotFound(err) {
			err = nil // it is not kept
			f.line(fmt.Sprintf("(the server was restarted, and the log of %s before that is not kept)", pod.Name))
		}
		if err != nil {
			return f.failed(ctx, pod.Name, err)
		}
	}
	s.instance = state.ContainerID
	err := f.stream(ctx, s, pod.Name, corev1.PodLogOptions{Container: container, Follow: true})
	if err == nil {
		s.ended = time.Now()
	}
	return f.failed(ctx, pod.Name, err)
}

// missed reports whether the container before this one may have written lines that were not read.
func (f *Follower) missed(s *source, state *corev1.ContainerStatus) bool {
	before := state.LastTerminationState.Terminated
	return s.instance != "" || before != nil && !before.FinishedAt.Time.Before(f.Since)
}

// failed notes an error about a pod, and returns it.
func (f *Follower) failed(ctx context.Context, pod string, err error) error {
	switch {
	case ctx.Err() != nil:
	case err == nil:
		f.note(pod, "")
	default:
		f.note(pod, fmt.Sprintf("the log of pod %s cannot be read, and is tried again: %s", pod, layout.OneLine(err.Error())))
	}
	return err
}

// stream passes on the lines of the run in a log, from the last one that was read on.
func (f *Follower) stream(ctx context.Context, s *source, pod string, options corev1.PodLogOptions) error {
	since := f.Since
	if s.last.After(since) {
		since = s.last
	}
	options.Timestamps = true
	if !since.IsZero() {
		options.SinceTime = new(metav1.NewTime(since))
	}
	body, err := f.Cluster.Pods.GetLogs(pod, &options).Stream(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }() // only read from
	if options.Follow {
		f.note(pod, "")
	}
	lines, filter := bufio.NewReaderSize(body, longestFollowed), newLineFilter(f.Kind, f.Cluster.Namespace+"/"+f.Name)
	for {
		text, err := readLine(lines)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		stamp, line, _ := strings.Cut(text, " ")
		written, err := time.Parse(time.RFC3339Nano, stamp)
		if err != nil { // the kubelet itself says something
			f.note(pod, layout.OneLine(text))
			continue
		}
		if !written.After(s.last) {
			continue
		}
		s.last = written
		for _, ours := range filter.add(line) {
			f.line(ours)
		}
	}
}

func (f *Follower) line(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Line(text)
}

// note notes what is wrong with a pod, or with all if the name is empty.
func (f *Follower) note(pod, sentence string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.problems[pod] = sentence
	all := f.problems[""]
	for _, name := range slices.Sorted(maps.Keys(f.problems)) {
		if all == "" {
			all = f.problems[name]
		}
	}
	if all != f.said {
		f.said = all
		f.Problem(all)
	}
}

// forget drops the problems of all other pods.
func (f *Follower) forget(pods []corev1.Pod) {
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.problems, func(name, _ string) bool {
		return name != "" && !slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.Name == name })
	})
}

// readLine returns the next line, without what is too long of it.
func readLine(lines *bufio.Reader) (string, error) {
	line, err := lines.ReadSlice('\n')
	text := string(bytes.TrimRight(line, "\r\n"))
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = lines.ReadSlice('\n')
	}
	if errors.Is(err, io.EOF) && text != "" {
		err = nil
	}
	return text, err
}

// lineFilter finds the lines of a run in the log of a server. A line that does not begin with a time continues the one
// before it, as texts of several lines do.
type lineFilter struct {
	text, json string // the field of the run in the two formats
	pending    []string
	ours       bool
}

// mostPending is how many lines are kept until it is known whose they are.
const mostPending = 100

func newLineFilter(key, value string) *lineFilter {
	return &lineFilter{text: " " + key + "=" + value, json: fmt.Sprintf("%q:%q", key, value)}
}

// add returns the lines of the run that are known with one more line.
func (f *lineFilter) add(line string) []string {
	if begins(line) {
		f.pending, f.ours = nil, false
	}
	if f.ours {
		return []string{line}
	}
	if len(f.pending) < mostPending {
		f.pending = append(f.pending, line)
	}
	if !f.names(line) {
		return nil
	}
	found := f.pending
	f.pending, f.ours = nil, true
	return found
}

// names reports whether a line has the field of the run.
func (f *lineFilter) names(line string) bool {
	if strings.HasPrefix(line, "{") {
		return strings.Contains(line, f.json)
	}
	for {
		_, rest, found := strings.Cut(line, f.text)
		if !found || rest == "" || rest[0] == ' ' {
			return found
		}
		line = rest
	}
}

// begins reports whether a line is the first one of an entry of the log.
func begins(line string) bool {
	if strings.HasPrefix(line, "{") {
		return true
	}
	stamp, _, _ := strings.Cut(line, " ")
	_, err := time.Parse("2006-01-02T15:04:05.000Z0700", stamp) // of hclog
	return err == nil
}

func isRefused(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) }
