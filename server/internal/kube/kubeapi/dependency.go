package kubeapi

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// webhookPatience is how long a webhook may fail before it counts as broken: long enough for a rollout of its service.
const webhookPatience = 30 * time.Second

// BrokenError is the error of a request that needs a part of the cluster which has failed all requests for a while: a
// webhook without a service, or an aggregated API whose server is down. Such requests are refused without being sent,
// except for one now and then that finds out whether the part works again.
type BrokenError struct {
	Part string // e.g. `webhook "policy.example.com"`
	For  time.Duration
	Err  error // the last failure
}

func (e *BrokenError) Error() string {
	return fmt.Sprintf("%s has failed every request for %s; repair or remove it: %v", e.Part,
		e.For.Round(time.Millisecond), e.Err)
}

func (e *BrokenError) Unwrap() error { return e.Err }

// dependency is a part of the cluster that the API server needs to serve some requests.
type dependency struct {
	name     string // for messages, and unique
	patience time.Duration
	group    string // that is not served; empty for a webhook
	// needs reports whether a request certainly needs the dependency. Requests that may or may not are sent.
	needs func(context.Context, *Request) bool

	since  time.Time // of the first failure; no request that needs it has succeeded from then on
	broken bool
	probe  time.Time // when the next request is sent although it is broken
	err    error     // the last failure
}

// dependencies are the dependencies that fail.
type dependencies struct {
	some    atomic.Bool // spares requests the lock while nothing fails
	mu      sync.Mutex
	failing map[string]*dependency
}

var (
	callingWebhook    = regexp.MustCompile(`failed calling webhook "([^"]+)"`)
	conversionWebhook = regexp.MustCompile(`conversion webhook for (.+?) failed: `)
)

// blame returns the dependency that made a request fail, nil if the failure has another reason.
func (c *Client) blame(r *Request, err error) *dependency {
	var status *apierrors.StatusError
	if !errors.As(err, &status) || r.Resource.Resource == "" {
		return nil
	}
	gvr, reads := r.Resource, r.reads()
	if match := callingWebhook.FindStringSubmatch(status.ErrStatus.Message); match != nil {
		return &dependency{
			name: fmt.Sprintf("webhook %q", match[1]), patience: min(webhookPatience, c.retryFor),
			needs: c.neededBy(match[1]),
		}
	}
	if match := conversionWebhook.FindStringSubmatch(status.ErrStatus.Message); match != nil {
		what := "writing"
		if reads {
			what = "reading"
		}
		return &dependency{
			name: fmt.Sprintf("the conversion webhook for %s of %s", what, match[1]), patience: min(webhookPatience, c.retryFor),
			// Objects may be readable without conversion and not writable, but hardly the other way round.
			needs: func(_ context.Context, other *Request) bool {
				return other.Resource == gvr && (!reads || other.reads())
			},
		}
	}
	if isUnavailable(err) {
		return &dependency{
			name: "API group " + gvr.GroupVersion().String(), patience: c.retryFor, group: gvr.Group,
			needs: func(_ context.Context, other *Request) bool {
				return other.Resource.GroupVersion() == gvr.GroupVersion()
			},
		}
	}
	return nil
}

// those returns the failing dependencies that a request needs.
func (d *dependencies) those(ctx context.Context, r *Request) []*dependency {
	if !d.some.Load() {
		return nil
	}
	d.mu.Lock()
	var all []*dependency
	for _, one := range d.failing {
		all = append(all, one)
	}
	d.mu.Unlock()
	needed := all[:0]
	for _, one := range all {
		if one.needs(ctx, r) { // which may send requests
			needed = append(needed, one)
		}
	}
	return needed
}

// refuse returns a BrokenError for a request that needs a broken dependency, unless it is time to try that again.
func (d *dependencies) refuse(ctx context.Context, r *Request, now time.Time) error {
	for _, one := range d.those(ctx, r) {
		d.mu.Lock()
		broken := one.broken && now.Before(one.probe)
		if one.broken && !broken {
			one.probe = now.Add(one.patience)
		}
		err := one.error(now)
		d.mu.Unlock()
		if broken {
			return err
		}
	}
	return nil
}

// TryBroken makes the client send the next request that needs a broken part of the cluster, to find out whether it
// works again.
func (c *Client) TryBroken() {
	c.dependencies.mu.Lock()
	defer c.dependencies.mu.Unlock()
	for _, one := range c.dependencies.failing {
		one.probe = time.Time{}
	}
}

// worked takes note of a request that has succeeded.
func (d *dependencies) worked(ctx context.Context, r *Request) {
	for _, one := range d.those(ctx, r) {
		d.mu.Lock()
		delete(d.failing, one.name)
		d.some.Store(len(d.failing) > 0)
		d.mu.Unlock()
	}
}

// failed takes note of a request that failed because of a dependency, and has been repeated since began. It returns an
// error if the request shall not be repeated again.
func (d *dependencies) failed(blamed *dependency, err error, began, now time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	one := d.failing[blamed.name]
	if one == nil {
		if d.failing == nil {
			d.failing = map[string]*dependency{}
		}
		one = blamed
		one.since = now
		d.failing[one.name] = one
		d.some.Store(true)
	}
	one.err = err
	patience := min(one.patience, blamed.patience) // the request may have less
	switch {
	case one.broken:
		return one.error(now)
	case now.Sub(began) < patience:
		return nil
	case now.Sub(one.since) < patience: // others get through
		return fmt.Errorf("gave up after %s of retries: %w", now.Sub(began).Round(time.Millisecond), err)
	}
	one.broken, one.probe = true, now.Add(one.patience)
	return one.error(now)
}

func (one *dependency) error(now time.Time) error {
	return &BrokenError{Part: one.name, For: now.Sub(one.since), Err: one.err}
}
