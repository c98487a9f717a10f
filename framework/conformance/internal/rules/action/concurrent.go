package action

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework/conformance/internal/sample"
	"github.com/cleat-dev/cleat/framework/conformance/internal/suite"
	"github.com/cleat-dev/cleat/framework/conformance/internal/wire"
)

func checkConcurrent(ctx context.Context, s *Action) error {
	requests, err := s.callerRequests(ctx)
	if err != nil {
		return err
	}
	problems := make([]error, suite.Callers)
	var asking sync.WaitGroup
	begin := make(chan struct{})
	for i, q := range requests {
		asking.Go(func() {
			<-begin
			for range 4 {
				if problems[i] = s.asCaller(ctx, i, q); problems[i] != nil {
					return
				}
			}
		})
	}
	close(begin)
	asking.Wait()
	return errors.Join(problems...)
}

// callerRequests returns a request for each of the concurrent callers. The items differ in name where the plugin
// answers items of other names; the items of the caller of the suite may have to keep theirs.
func (s *Action) callerRequests(ctx context.Context) ([]wire.Request, error) {
	one, err := s.Sound(ctx)
	if err != nil {
		return nil, err
	}
	for _, renamed := range []bool{true, false} {
		for _, owned := range []bool{true, false} { // the answer may depend on the owner's name
			requests := make([]wire.Request, suite.Callers)
			for i := range requests {
				item := one.Sample.With(func(item *unstructured.Unstructured) {
					if renamed {
						item.SetName(suite.Caller(i))
					}
					sample.Annotate(item, "conformance.invalid/caller", suite.Caller(i))
				})
				requests[i] = s.Request(item)
				requests[i].Key = suite.Caller(i)
				if owned {
					requests[i].Owner = sample.Encode(s.Owner(suite.Caller(i)))
				}
			}
			if _, err = s.Execute(ctx, requests[0]); err == nil {
				return requests, nil
			}
		}
	}
	return nil, suite.Skip("asked about another item of the kind, it answers an error: %v", err)
}

// asCaller asks as one of the concurrent callers and checks that the answer has no mark of another caller.
func (s *Action) asCaller(ctx context.Context, i int, q wire.Request) error {
	got, err := s.Execute(ctx, q)
	if err != nil {
		return fmt.Errorf("%s: %w", suite.Caller(i), err)
	}
	raw, err := proto.Marshal(got.Raw)
	if err != nil {
		return err
	}
	for other := range suite.Callers {
		if other != i && bytes.Contains(raw, []byte(suite.Caller(other))) {
			return fmt.Errorf("the answer to %s has %s in it: %s", suite.Caller(i), suite.Caller(other), sample.Brief(got.Item))
		}
	}
	return nil
}

func checkCancelled(ctx context.Context, s *Action) error {
	one, err := s.Sound(ctx)
	if err != nil {
		return err
	}
	if _, err := s.Conn(ctx); err != nil {
		return err
	}
	// Calls are cancelled at all times between their start and their answer. The window grows until some calls are
	// answered in time.
	for window := 20 * time.Millisecond; window < 2*time.Second; window *= 2 {
		if s.givesUp(ctx, one.Request, window) {
			break
		}
	}
	return suite.Settled(ctx, func() error {
		if _, err := s.Execute(ctx, one.Request); err != nil {
			return fmt.Errorf("after calls were given up, the next about %s: %w", one.Sample, err)
		}
		return nil
	})
}

// givesUp makes many calls at once, cancels each at a different time within window, and reports whether some were
// answered before.
func (s *Action) givesUp(ctx context.Context, q wire.Request, window time.Duration) (answered bool) {
	const calls = 2 * suite.Callers
	var inTime atomic.Bool
	var asking sync.WaitGroup
	for i := range calls {
		asking.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, window*time.Duration(i)/calls)
			defer cancel()
			if _, err := s.Execute(ctx, q); err == nil {
				inTime.Store(true)
			}
		})
	}
	asking.Wait()
	return inTime.Load()
}
