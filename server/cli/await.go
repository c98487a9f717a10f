package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// state is how far an operation is.
type state struct {
	phase       string
	done, total int
	ended       bool
}

// retryPause is how long to wait before the cluster is asked again after a failure.
const retryPause = 500 * time.Millisecond

// await watches obj until see says that it has ended, and shows each state. The API server may be
// away meanwhile. see reads from obj, which holds the newest state.
func (s *session) await(ctx context.Context, obj client.Object, list client.ObjectList, see func() state, show display) error {
	defer show.end()
	for told := false; ; {
		err := s.follow(ctx, obj, list, see, show)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("stopped waiting for %s; it goes on all the same", obj.GetName())
		case apierrors.IsNotFound(err):
			return fmt.Errorf("%s was deleted", obj.GetName())
		case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
			return err
		case !told:
			show.note(fmt.Sprintf("still waiting, though the API server cannot be asked now: %v", err))
			told = true
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryPause):
		}
	}
}

// follow watches until the end, or until the watch ends, which is an error.
func (s *session) follow(ctx context.Context, obj client.Object, list client.ObjectList, see func() state, show display) error {
	uid := obj.GetUID()
	if err := s.Get(ctx, client.ObjectKeyFromObject(obj), obj); err != nil {
		return err
	}
	if uid != "" && obj.GetUID() != uid {
		return apierrors.NewNotFound(resourceOf(obj), obj.GetName())
	}
	if now := see(); now.ended {
		show.state(now)
		return nil
	}
	show.state(see())
	watcher, err := s.Watch(ctx, list, client.InNamespace(obj.GetNamespace()), client.MatchingFields{"metadata.name": obj.GetName()},
		&client.ListOptions{Raw: rawWatchFrom(obj.GetResourceVersion())})
	if err != nil {
		return err
	}
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		switch event.Type {
		case watch.Added, watch.Modified:
			if err := assign(obj, event.Object); err != nil {
				return err
			}
			now := see()
			show.state(now)
			if now.ended {
				return nil
			}
		case watch.Deleted:
			return apierrors.NewNotFound(resourceOf(obj), obj.GetName())
		case watch.Error:
			return apierrors.FromObject(event.Object)
		default:
		}
	}
	return io.ErrUnexpectedEOF
}

// display shows the states of what is waited for.
type display interface {
	state(state)
	note(string)
	end()
}

// newDisplay is a progress bar on a terminal, and a line for each phase anywhere else.
func newDisplay(w io.Writer, what string) display {
	if file, ok := w.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		return &bar{w: w, what: what}
	}
	return &lines{w: w, what: what}
}

// lines prints one line for each phase.
type lines struct {
	w           io.Writer
	what, phase string
}

func (l *lines) state(s state) {
	if s.phase == l.phase {
		return
	}
	l.phase = s.phase
	fmt.Fprintf(l.w, "%s: %s\n", l.what, s.phase)
}

func (l *lines) note(text string) { fmt.Fprintf(l.w, "%s: %s\n", l.what, text) }
func (l *lines) end()             {}

// bar is a spinner, and a progress bar as soon as the number of items is known.
type bar struct {
	w       io.Writer
	what    string
	bar     *progressbar.ProgressBar
	counted bool
}

func (b *bar) state(s state) {
	if b.bar == nil || s.total > 0 && !b.counted {
		b.end()
		b.counted = s.total > 0
		b.bar = b.make(s.total)
	}
	b.bar.Describe(fmt.Sprintf("%s: %s", b.what, s.phase))
	if b.counted {
		b.bar.ChangeMax(max(s.total, 1))
		_ = b.bar.Set(min(s.done, s.total)) // only fails beyond the maximum
	}
}

func (b *bar) make(total int) *progressbar.ProgressBar {
	options := []progressbar.Option{
		progressbar.OptionSetWriter(b.w), progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(100 * time.Millisecond),
		progressbar.OptionSetPredictTime(false), progressbar.OptionSetElapsedTime(true),
	}
	if total <= 0 {
		return progressbar.NewOptions(-1, options...)
	}
	return progressbar.NewOptions(total, append(options, progressbar.OptionShowCount(), progressbar.OptionFullWidth())...)
}

func (b *bar) note(text string) {
	b.end()
	fmt.Fprintf(b.w, "%s: %s\n", b.what, text)
}

func (b *bar) end() {
	if b.bar != nil {
		_ = b.bar.Finish() // a terminal that is gone shows nothing anyway
		b.bar, b.counted = nil, false
	}
}
