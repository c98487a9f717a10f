package restore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/cleat-dev/cleat/server/discovery"
)

// ErrUnreachable ends a restore whose API server did not answer for Options.OutageTimeout.
var ErrUnreachable = errors.New("API server does not answer")

// Media types. Of what is written only the metadata is asked back, which spares the server and the wire the
// rest; servers that cannot do that answer in full.
const (
	mediaJSON       = "application/json"
	mediaMetadata   = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json"
	mediaMergePatch = "application/merge-patch+json"
	mediaApply      = "application/apply-patch+yaml"
)

// Retries. A request that the server refuses for now is tried again with growing pauses.
const (
	firstPause = 50 * time.Millisecond
	lastPause  = 5 * time.Second
	// maxTries bounds the answers that may well be final: conflicts and internal errors.
	maxTries = 9
	// settleTime is how long after an outage a server may say that it does not know what it has not
	// loaded yet: roles, namespaces, custom resources.
	settleTime = 30 * time.Second
	// tryTimeout bounds one request, above the server's own bound of 34 to 60 s.
	tryTimeout = 90 * time.Second
	// maxReply bounds what is read of one answer; an object has at most a few MiB.
	maxReply = 64 << 20
)

// api speaks to the API server with raw JSON. It retries what is worth it, in this one place. Safe for
// concurrent use.
type api struct {
	base   *url.URL
	client *http.Client
	log    hclog.Logger
	budget time.Duration // Options.OutageTimeout

	mu          sync.Mutex
	outageStart time.Time // of the first failure since an answer came; zero while the server answers
	outageEnd   time.Time // of the last outage
}

// call is one request, which is sent as often as it takes.
type call struct {
	method  string
	path    string
	query   string
	content string // media type of body
	accept  string
	body    []byte
	// settling makes the server's "not found" a reason to try again: the resource was defined just now.
	settling bool
	// once forbids a second try after a first one that may have got through: creations without a name.
	once bool
	// conflicts are left to the caller, because the request names the version that it wants to change.
	conditional bool
}

// reply is a good answer, or that of a failed call.
type reply struct {
	body []byte
	// repeated says that an earlier try of the same call may have got through.
	repeated bool
}

func newAPI(config *rest.Config, log hclog.Logger, budget time.Duration) (*api, error) {
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("address of the API server: %w", err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("client of the API server: %w", err)
	}
	return &api{base: base, client: client, log: log, budget: budget}, nil
}

// do sends a call. An error is a *apierrors.StatusError if the server gave it, wraps ErrUnreachable if there
// is no server, or is that of ctx.
func (a *api) do(ctx context.Context, c call) (reply, error) {
	var out reply
	var err error
	out.repeated, err = a.persist(ctx, c, func() (after time.Duration, err error) {
		out.body, after, err = a.try(ctx, c)
		return after, err
	})
	return out, err
}

// persist tries until it succeeds, fails for good or has taken too long. repeated says that a try which
// failed may have got through all the same.
func (a *api) persist(ctx context.Context, c call, try func() (after time.Duration, err error)) (repeated bool, err error) {
	var began time.Time // of the retries
	pause := firstPause
	for n := 1; ; n++ {
		after, err := try()
		if err == nil {
			return repeated, nil
		}
		if ctx.Err() != nil {
			return repeated, context.Cause(ctx)
		}
		again, unsure := a.worthAnother(c, err, n)
		if !again || unsure && c.once {
			return repeated, err
		}
		repeated = repeated || unsure
		if began.IsZero() {
			began = time.Now()
		}
		if a.lost() {
			return repeated, fmt.Errorf("%w for %s: %w", ErrUnreachable, a.budget, err)
		}
		if time.Since(began) > a.budget {
			return repeated, err
		}
		wait := min(max(after, pause/2+rand.N(pause/2+1)), a.budget)
		a.log.Debug("trying again", "method", c.method, "path", c.path, "try", n, "pause", wait, "error", err)
		if err := sleep(ctx, wait); err != nil {
			return repeated, err
		}
		pause = min(2*pause, lastPause)
	}
}

// discover asks a discovery helper, which does not try again by itself.
func (a *api) discover(ctx context.Context, ask func(context.Context) (*discovery.Snapshot, error)) (snapshot *discovery.Snapshot, err error) {
	_, err = a.persist(ctx, call{method: http.MethodGet, path: "discovery"}, func() (time.Duration, error) {
		snapshot, err = ask(ctx)
		var status *apierrors.StatusError
		if err == nil || errors.As(err, &status) {
			a.answered()
		} else {
			a.failed()
		}
		return 0, err
	})
	return snapshot, err
}

// try sends a call once. after is how long the server asks to wait.
func (a *api) try(ctx context.Context, c call) (body []byte, after time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	target := *a.base
	target.Path, target.RawPath = joinPath(a.base.Path, c.path)
	target.RawQuery = c.query
	request, err := http.NewRequestWithContext(ctx, c.method, target.String(), bytes.NewReader(c.body))
	if err != nil {
		return nil, 0, fmt.Errorf("%s %s: %w", c.method, c.path, err)
	}
	if c.content != "" {
		request.Header.Set("Content-Type", c.content)
	}
	request.Header.Set("Accept", c.accept)
	response, err := a.client.Do(request)
	if err != nil {
		a.failed()
		return nil, 0, err
	}
	defer response.Body.Close()
	body, err = io.ReadAll(io.LimitReader(response.Body, maxReply))
	if err != nil {
		a.failed()
		return nil, 0, fmt.Errorf("%s %s: read the answer: %w", c.method, c.path, err)
	}
	if response.StatusCode < 300 {
		a.answered()
		return body, 0, nil
	}
	if response.StatusCode != http.StatusServiceUnavailable && response.StatusCode != http.StatusBadGateway {
		a.answered()
	}
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && seconds > 0 {
		after = min(time.Duration(seconds)*time.Second, a.budget)
	}
	return nil, after, statusError(response.StatusCode, c, body)
}

// statusError is the error that the server's answer stands for.
func statusError(code int, c call, body []byte) error {
	var status metav1.Status
	if err := json.Unmarshal(body, &status); err == nil && status.Kind == "Status" && status.Code != 0 {
		return &apierrors.StatusError{ErrStatus: status}
	}
	const most = 500
	text := strings.TrimSpace(string(body[:min(len(body), most)]))
	return apierrors.NewGenericServerResponse(code, c.method, schema.GroupResource{}, "", text, 0, true)
}

// worthAnother decides what may be tried again, and whether the failed try may have got through.
func (a *api) worthAnother(c call, err error, try int) (again, unsure bool) {
	var status *apierrors.StatusError
	if !errors.As(err, &status) {
		// The connection failed. Only where none was made nothing can have got through.
		var op *net.OpError
		dialled := !errors.As(err, &op) || op.Op != "dial"
		return true, dialled
	}
	switch status.ErrStatus.Code {
	case http.StatusTooManyRequests:
		return true, false
	case http.StatusServiceUnavailable, http.StatusBadGateway:
		return true, true
	case http.StatusGatewayTimeout, http.StatusInternalServerError:
		return try < maxTries, true
	case http.StatusConflict:
		return apierrors.IsConflict(err) && !c.conditional && try < maxTries, false
	case http.StatusNotFound:
		return pathNotFound(err) && (c.settling && try < maxTries || a.settling()), false
	case http.StatusForbidden, http.StatusUnauthorized:
		return a.settling() && !apierrors.HasStatusCause(err, "NamespaceTerminating"), false
	}
	return false, false
}

// pathNotFound says whether the server does not know the path of a request, rather than an object or its
// namespace: then the answer has no details.
func pathNotFound(err error) bool {
	var status *apierrors.StatusError
	if !errors.As(err, &status) || status.ErrStatus.Code != http.StatusNotFound {
		return false
	}
	return status.ErrStatus.Details == nil || status.ErrStatus.Details.Name == ""
}

func (a *api) failed() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.outageStart.IsZero() {
		a.outageStart = time.Now()
		a.log.Warn("API server does not answer, trying again")
	}
}

func (a *api) answered() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.outageStart.IsZero() {
		a.outageStart, a.outageEnd = time.Time{}, time.Now()
		a.log.Info("API server answers again")
	}
}

// lost says whether no answer has come for too long.
func (a *api) lost() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.outageStart.IsZero() && time.Since(a.outageStart) > a.budget
}

// settling says whether the server came back only just now.
func (a *api) settling() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.outageEnd.IsZero() && time.Since(a.outageEnd) < settleTime
}

// joinPath appends a path of the API, in which names are escaped, to the path of the server's address.
func joinPath(base, path string) (plain, raw string) {
	raw = strings.TrimSuffix(base, "/") + path
	plain, err := url.PathUnescape(raw)
	if err != nil {
		return raw, ""
	}
	return plain, raw
}

// resourcePath is the path of the objects of a type, in a namespace unless that is empty.
func resourcePath(gvr schema.GroupVersionResource, namespace string) string {
	var b strings.Builder
	if gvr.Group == "" {
		b.WriteString("/api/")
	} else {
		b.WriteString("/apis/" + url.PathEscape(gvr.Group) + "/")
	}
	b.WriteString(url.PathEscape(gvr.Version))
	if namespace != "" {
		b.WriteString("/namespaces/" + url.PathEscape(namespace))
	}
	b.WriteString("/" + url.PathEscape(gvr.Resource))
	return b.String()
}

// objectPath is the path of one object.
func objectPath(gvr schema.GroupVersionResource, namespace, name string) string {
	return resourcePath(gvr, namespace) + "/" + url.PathEscape(name)
}

// get reads an object.
func (a *api) get(ctx context.Context, path, accept string) ([]byte, error) {
	r, err := a.do(ctx, call{method: http.MethodGet, path: path, accept: accept})
	return r.body, err
}

// sleep waits for d or the end of ctx, whose error it returns.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
