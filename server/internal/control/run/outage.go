package run

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
	"github.com/cleat-dev/cleat/server/internal/kube/waits"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/objectstore"
)

const (
	// repeats is the maximum number of repetitions of a call that fails for an unclear reason although the object store
	// answers.
	repeats = 3
	// answerTimeout limits the check whether an object store answers.
	answerTimeout = time.Minute
	// firstPause is the first of the growing pauses between two attempts.
	firstPause = 500 * time.Millisecond
)

// PatientStores opens object storage for a run. Calls are repeated if they fail. It is not for the validation of
// locations, nor for work that a queue repeats.
type PatientStores struct {
	Stores
	For time.Duration // how long a call waits for an object store that does not answer; 0 for no repetitions
	Log hclog.Logger
	// Note, unless nil, is called when a wait begins, with the reason, for work without a list of waits in its context.
	Note func(ctx context.Context, why error)
	// Brief makes a call fail at once if the object store does not answer, for work that a queue repeats.
	Brief bool
}

// finalPatience is how long a step at the end of a run is repeated in place, since it has a worker of its controller.
const finalPatience = time.Minute

// PatientAtEnd returns stores for what follows the run of an object. A read that is cut off goes on where it was. An
// object store that does not answer is left to the queue. What the object waits for is written to it.
func (c *Cluster) PatientAtEnd(
	stores Stores, object client.Object, limit time.Duration, log hclog.Logger, now func() time.Time,
) Stores {
	return PatientStores{Stores: stores, For: min(limit, finalPatience), Brief: true, Log: log,
		Note: func(ctx context.Context, why error) {
			copied, _ := object.DeepCopyObject().(client.Object) // others may read it
			if err := c.Note(ctx, copied, waitsForAnswer, why, now()); client.IgnoreNotFound(err) != nil {
				log.Warn("could not write what the object waits for", "error", err)
			}
		}}
}

// Open implements Stores.
func (p PatientStores) Open(ctx context.Context, location *velerov1.BackupStorageLocation) (*store.Store, error) {
	opened, err := p.Stores.Open(ctx, location)
	if p.For <= 0 {
		return opened, err
	}
	o := &outage{limit: p.For, log: p.Log, note: p.Note, brief: p.Brief,
		what: "the object store of backup storage location " + location.Name}
	if err != nil {
		if _, ofPlugin := errors.AsType[*versioning.Error](err); !ofPlugin || p.Brief || isFinal(ctx, err) {
			return nil, err
		}
		o.ask = func(ctx context.Context) (err error) {
			opened, err = p.Stores.Open(ctx, location)
			return err
		}
		var waiting waits.Retry
		waiting.Failed(ctx, o.what, err)
		err := o.wait(ctx, err)
		waiting.End()
		if err != nil {
			return nil, err
		}
	}
	o.ask = opened.Validate
	return opened.With(func(objects objectstore.Store) objectstore.Store {
		return patientStore{Store: objects, outage: o}
	}), nil
}

// outage repeats the failed calls of an object store. Plugins made for Velero do not report whether a failure is
// permanent. So unless a failure is known to be, outage checks whether the object store answers at all. If it does
// not, the call waits until it does. If it does, the call is repeated: within the limit if it was interrupted, and
// otherwise a few times. outage is safe for concurrent use.
type outage struct {
	limit time.Duration
	log   hclog.Logger
	what  string                      // for messages: what a call waits for
	ask   func(context.Context) error // checks whether the object store answers
	note  func(context.Context, error)
	brief bool // do not wait until it does

	mu    sync.Mutex
	began time.Time // zero while the object store answers
}

// call makes attempts until one succeeds, fails permanently, or the time is up. An attempt returns its progress; an
// attempt with more progress than all before does not count as a repetition.
func (o *outage) call(ctx context.Context, attempt func() (far int64, err error)) error {
	backoff := newBackoff()
	var furthest int64
	var since time.Time // the first failure while the object store answered
	var waiting waits.Retry
	defer waiting.End()
	for repeated := 0; ; repeated++ {
		far, err := attempt()
		if err == nil {
			o.end()
			return nil
		}
		if isFinal(ctx, err) {
			return err
		}
		o.log.Debug("a call of the object store failed", "error", err)
		waiting.Failed(ctx, o.what, err)
		if err := o.wait(ctx, err); err != nil {
			return err
		}
		if far > furthest {
			furthest, repeated = far, 0
		}
		if repeated == 0 {
			since = time.Now()
		}
		if lasts := time.Since(since); repeated >= repeats && (!isInterrupted(err) || lasts >= o.limit) {
			return err
		} else if repeated == repeats && o.note != nil {
			o.note(ctx, err)
		}
		if err := kubeapi.Pause(ctx, backoff, err); err != nil {
			return err
		}
	}
}

func newBackoff() *wait.Backoff {
	backoff := kubeapi.Backoff()
	backoff.Duration = firstPause
	return backoff
}

// finalError marks the error of a call that must not be repeated.
type finalError struct{ error }

func (e finalError) Unwrap() error { return e.error }

// isFinal reports whether a call that failed with err will fail again, or must not be made again.
func isFinal(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return true
	}
	if _, marked := errors.AsType[finalError](err); marked {
		return true
	}
	for _, final := range []error{ErrLostLead, versioning.ErrNotFound, versioning.ErrInvalid, versioning.ErrExists,
		versioning.ErrLocked, versioning.ErrInvalidReply, errors.ErrUnsupported} {
		if errors.Is(err, final) {
			return true
		}
	}
	switch status.Code(err) {
	case codes.PermissionDenied, codes.Unimplemented, codes.FailedPrecondition, codes.OutOfRange:
		return true
	default:
		return false
	}
}

// wait returns when the object store answers, usually at once. If the time is up before that, or ctx ends, it returns
// failure with the reason.
func (o *outage) wait(ctx context.Context, failure error) error {
	backoff := newBackoff()
	failed := time.Now()
	for {
		if o.lasts() > o.limit {
			return fmt.Errorf("%w; the object store has not answered for %s, see --store-outage-timeout", failure, o.limit)
		}
		switch {
		case o.answers(ctx):
			o.end()
			return nil
		case o.brief:
			return failure
		case ctx.Err() == nil:
			o.begin(ctx, failed, failure)
		}
		if err := kubeapi.Pause(ctx, backoff, failure); err != nil {
			return err
		}
	}
}

func (o *outage) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	return o.ask(ctx) == nil
}

// lasts returns how long the object store has not answered.
func (o *outage) lasts() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.began.IsZero() {
		return 0
	}
	return time.Since(o.began)
}

func (o *outage) begin(ctx context.Context, at time.Time, failure error) {
	if o.isFirst(at, failure) && o.note != nil {
		o.note(ctx, failure)
	}
}

func (o *outage) isFirst(at time.Time, failure error) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.began.IsZero() {
		return false
	}
	o.began = at
	o.log.Warn(fmt.Sprintf("the object store failed, trying again for up to %s", o.limit), "error", failure)
	return true
}

func (o *outage) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.began.IsZero() {
		o.log.Info("the object store answers again", "after", time.Since(o.began).Round(time.Millisecond).String())
		o.began = time.Time{}
	}
}
