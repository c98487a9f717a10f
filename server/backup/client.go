package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"github.com/cleat-dev/cleat/server/discovery"
)

const (
	// requestTimeout is the longest a single request may take. API servers end lists after a minute.
	requestTimeout = 2 * time.Minute
	// maxPage is how many bytes a page may have before it is asked for again with fewer objects.
	maxPage = 16 << 20
	// maxObject is how many bytes are read for one object, or for a page that cannot be made smaller.
	maxObject = 256 << 20

	firstWait = 100 * time.Millisecond
	longWait  = 5 * time.Second
	maxWait   = 30 * time.Second // of what a server may ask for
)

// client reads raw JSON from the API server. It is the one place that retries.
type client struct {
	rest     rest.Interface
	log      hclog.Logger
	retryFor time.Duration
	now      func() time.Time

	mu   sync.Mutex
	down time.Time // when the API server was first found away; zero while it answers
}

func newClient(config *rest.Config, log hclog.Logger, retryFor time.Duration, now func() time.Time) (*client, error) {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"}) // for metav1.Status
	config = rest.CopyConfig(config)
	config.GroupVersion = &schema.GroupVersion{}
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	// Compressed lists cost both sides more than they save inside of a cluster.
	config.DisableCompression = true
	r, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("client for the API server: %w", err)
	}
	return &client{rest: r, log: log, retryFor: retryFor, now: now}, nil
}

// errPageTooBig asks for fewer objects at once.
var errPageTooBig = errors.New("page is too big")

// list reads one page into buf. limit is the number of objects to ask for. errPageTooBig comes for
// pages above maxPage, unless limit is 1.
func (c *client) list(ctx context.Context, res discovery.Resource, namespace, selector string, limit int, token string, buf []byte) ([]byte, error) {
	err := c.retry(ctx, "list "+res.GroupResource().String(), func(ctx context.Context) (err error) {
		req := c.rest.Get().AbsPath(res.Path(namespace)).Param("limit", strconv.Itoa(limit))
		if selector != "" {
			req = req.Param("labelSelector", selector)
		}
		if token != "" {
			req = req.Param("continue", token)
		}
		most := maxPage
		if limit == 1 {
			most = maxObject
		}
		buf, err = read(ctx, req, buf[:0], most)
		return err
	})
	return buf, err
}

// get reads one object.
func (c *client) get(ctx context.Context, res discovery.Resource, namespace, name string) ([]byte, error) {
	var object []byte
	err := c.retry(ctx, fmt.Sprintf("get %s %s/%s", res.GroupResource(), namespace, name), func(ctx context.Context) (err error) {
		object, err = read(ctx, c.rest.Get().AbsPath(res.Path(namespace), name), nil, maxObject)
		return err
	})
	return object, err
}

func read(ctx context.Context, req *rest.Request, buf []byte, most int) ([]byte, error) {
	body, err := req.MaxRetries(0).Stream(ctx)
	if err != nil {
		return buf, err
	}
	defer func() { _ = body.Close() }() // nothing is written
	for {
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
		n, err := body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case errors.Is(err, io.EOF):
			return buf, nil
		case err != nil:
			return buf, fmt.Errorf("read the answer of the API server: %w", err)
		case len(buf) > most:
			return buf, fmt.Errorf("%w: more than %d bytes", errPageTooBig, most)
		}
	}
}

// retry repeats a request while the API server is away, restarting or overloaded, with growing
// pauses or those that the server asks for, but for no longer than retryFor. Once the server has been
// away for that long, every further request is tried once, until one succeeds.
func (c *client) retry(ctx context.Context, what string, do func(context.Context) error) error {
	var since time.Time
	for wait := firstWait; ; wait = min(2*wait, longWait) {
		err := c.once(ctx, do)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !transient(err) && (since.IsZero() || !starting(err)) {
			return err
		}
		if since.IsZero() {
			since = c.now()
			c.log.Warn("the API server failed a request, it is repeated", "request", what, "error", err)
		}
		if now := c.now(); now.Sub(since) > c.retryFor || now.Sub(c.downSince(now)) > c.retryFor {
			return fmt.Errorf("given up after %s of retries: %w", now.Sub(since).Round(time.Millisecond), err)
		}
		pause := wait/2 + rand.N(wait)
		if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
			pause = min(max(pause, time.Duration(seconds)*time.Second), maxWait)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (c *client) once(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err := do(ctx)
	if err == nil || !transient(err) {
		c.mu.Lock()
		c.down = time.Time{}
		c.mu.Unlock()
	}
	return err
}

// downSince is when the server was first found away; it notes now if that is news.
func (c *client) downSince(now time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.down.IsZero() {
		c.down = now
	}
	return c.down
}

// transient says whether the same request may succeed later.
func transient(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return !errors.Is(err, errPageTooBig) // no answer, or half of one
	}
	switch code := int(status.Status().Code); code {
	case http.StatusTooManyRequests, http.StatusConflict, http.StatusRequestTimeout:
		return true
	default:
		return code >= http.StatusInternalServerError && code != http.StatusNotImplemented
	}
}

// vanished says whether the API server does not serve a resource any more.
func vanished(err error) bool { return apierrors.IsNotFound(err) }

// starting says whether the error is one that an API server also gives while it starts, before it
// knows all users and roles.
func starting(err error) bool {
	return apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err)
}
