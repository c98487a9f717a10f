package kubeapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/hashicorp/go-hclog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

// attemptTimeout limits one attempt. The API server's own limit is 34 to 60 seconds.
const attemptTimeout = 90 * time.Second

// ErrTooLarge is returned for a reply of more than Request.MaxReply bytes.
var ErrTooLarge = errors.New("reply is too large")

// Client sends requests to the API server. It is safe for concurrent use.
type Client struct {
	rest     rest.Interface
	log      hclog.Logger
	retryFor time.Duration
	health   health

	dependencies dependencies

	// Stalled, unless nil, is called when a request begins to wait for a webhook that fails, or for an API group that is
	// not served. group is empty for a webhook. It returns until when such requests may wait, zero for no limit, and over
	// is called when this one does not wait any more. It is set before the first request.
	Stalled func(ctx context.Context, group string) (until time.Time, over func())
}

// New returns a client that repeats requests for up to retryFor while the API server is away or
// overloaded. The rate limits of config apply to this client alone. Warnings of the API server are not
// logged: they are for the authors of objects, not for a server that copies them.
func New(config *rest.Config, log hclog.Logger, retryFor time.Duration) (*Client, error) {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"}) // for metav1.Status
	config = rest.CopyConfig(config)
	config.GroupVersion = &schema.GroupVersion{}
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	config.WarningHandler, config.WarningHandlerWithContext = rest.NoWarnings{}, nil
	// Inside a cluster, compressing lists costs both sides more time than it saves.
	config.DisableCompression = true
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return delayRecorder{next} })
	client, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("client for the API server: %w", err)
	}
	return &Client{rest: client, log: log, retryFor: retryFor}, nil
}

// Do sends a request and repeats it according to the retry policy. An error wraps a *apierrors.StatusError if the API
// server replied with one, is a *BrokenError if the request needs a part of the cluster that is broken, wraps
// ErrUnreachable if the API server does not reply, and is the cause of ctx if ctx ended. Even then Reply.Uncertain is
// set, and Reply.Body holds the buffer.
func (c *Client) Do(ctx context.Context, r Request) (Reply, error) {
	reply := Reply{Body: r.Buffer[:0]}
	if _, err := r.build(c.rest); err != nil {
		return reply, err
	}
	var err error
	reply.Uncertain, err = c.retry(ctx, &r, r.String(), func(ctx context.Context) (err error) {
		reply.Body, err = c.send(ctx, &r, reply.Body[:0])
		return err
	})
	return reply, err
}

// Retry calls read, which reads from the API server by other means, under the policy of this client. what
// names the request in logs.
func (c *Client) Retry(ctx context.Context, what string, read func(context.Context) error) error {
	_, err := c.retry(ctx, &Request{}, what, read)
	return err
}

// send makes one attempt. It appends the reply to buf.
func (c *Client) send(ctx context.Context, r *Request, buf []byte) ([]byte, error) {
	request, err := r.build(c.rest)
	if err != nil {
		return buf, err
	}
	ctx, delay := withDelay(ctx)
	body, err := request.Stream(ctx)
	if err != nil {
		return buf, delay.addTo(err)
	}
	defer body.Close()
	limit := r.MaxReply
	if limit == 0 {
		limit = maxReply
	}
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
			return buf, fmt.Errorf("read the reply to %s: %w", r, err)
		case len(buf) > limit:
			return buf, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limit)
		}
	}
}
