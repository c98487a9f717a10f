package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/cleat-dev/cleat/server/internal/kube/shorten"
	"github.com/cleat-dev/cleat/server/internal/node/hostpath"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/datamover"
)

const (
	// outagePause is the time between two calls of a mover whose storage does not answer.
	outagePause = 2 * time.Second
	// mostReason is the longest text about an outage, in bytes.
	mostReason = 1000
)

// reporter gets how far an attempt to move data is. It is safe for concurrent use.
type reporter interface {
	Report(done, total int64)
	Wait(why string) // why the data is not moved, "" if it is
}

// callPatiently calls the mover, and calls it again while its storage does not answer. It gives up when that has lasted
// for StoreOutage, in all outages since a call has moved more than each one before. The mover goes on with what the
// calls before have stored.
func (a *Agent) callPatiently(
	ctx context.Context, l *load, from hostpath.Volume, of job, to reporter,
) (outcome, error) {
	p := &endurance{now: a.Now, to: to}
	for {
		o, err := a.call(ctx, l, from, of, p.report)
		if err == nil || !errors.Is(err, versioning.ErrUnavailable) || ctx.Err() != nil || a.StoreOutage <= 0 {
			return o, err
		}
		since, lasted := p.fail()
		if lasted >= a.StoreOutage {
			return o, fmt.Errorf("%w; the storage has not answered for %s, see --store-outage-timeout of the node agent", err,
				a.StoreOutage)
		}
		a.Log.Warn("the storage of a load does not answer, trying again", "kind", l.name, "name", l.GetName(), "for",
			a.StoreOutage, "error", err)
		to.Wait(fmt.Sprintf("waits for the storage, since %s: %s", since.UTC().Format(time.RFC3339),
			shorten.Text(err.Error(), mostReason)))
		pause(ctx, outagePause)
		if ctx.Err() != nil {
			return o, err
		}
		of.again = true
	}
}

// endurance measures for how long the storage of a load does not answer.
type endurance struct {
	now func() time.Time
	to  reporter

	mu         sync.Mutex
	done, most int64         // bytes that this call has moved, and the one that has moved most
	failed     time.Time     // zero while data is moved
	lasted     time.Duration // of earlier outages since most has changed
	told       bool          // that the mover waits
}

// report takes the progress of a call.
func (p *endurance) report(now datamover.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	moved := now.DoneBytes > p.done
	if moved {
		p.done = now.DoneBytes
		if !p.failed.IsZero() {
			p.lasted += p.now().Sub(p.failed)
			p.failed = time.Time{}
			p.to.Wait("")
		}
	}
	if p.done > p.most {
		p.most, p.lasted = p.done, 0
	}
	switch {
	case !p.failed.IsZero(): // which is what the load says
	case strings.HasPrefix(now.Activity, datamover.Waiting):
		p.to.Wait(now.Activity)
		p.told = true
	case p.told:
		p.to.Wait("")
		p.told = false
	}
	p.to.Report(now.DoneBytes, now.TotalBytes)
}

// fail ends a call that has failed, and returns since when the storage does not answer, and for how long.
func (p *endurance) fail() (since time.Time, lasted time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done, p.told = 0, false
	if p.failed.IsZero() {
		p.failed = p.now()
	}
	return p.failed, p.lasted + p.now().Sub(p.failed)
}
