package verification

import (
	"context"
	"sync"
	"time"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/run"
)

// progress writes how far a verification is, until it ends. It cancels the verification if the backup is deleted.
type progress struct {
	mu   sync.Mutex
	run  velerov1.VerificationRun
	quit chan struct{}
	done chan struct{}
}

func (r *Controller) follow(
	ctx context.Context, cancel context.CancelCauseFunc, b *velerov1.Backup, due *velerov1.VerificationRun,
) *progress {
	p := &progress{run: *due, quit: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(p.done)
		ticker := time.NewTicker(progressPause)
		defer ticker.Stop()
		for {
			select {
			case <-p.quit:
				return
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			now := p.get()
			if err := r.write(ctx, b, func(v *velerov1.Verification) { v.Running = &now }); run.Superseded(err) {
				cancel(err)
				return
			}
		}
	}()
	return p
}

func (p *progress) set(done, total int64, at string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.run.DoneBytes, p.run.TotalBytes, p.run.At = done, total, at
}

func (p *progress) get() velerov1.VerificationRun {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.run
}

// end waits until nothing is written any more.
func (p *progress) end() {
	close(p.quit)
	<-p.done
}
