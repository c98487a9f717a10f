package hook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	utilexec "k8s.io/client-go/util/exec"
	"k8s.io/klog/v2"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
	"github.com/cleat-dev/cleat/server/internal/kube/shorten"
)

// Executor runs commands in containers through the exec sub-resource of the API server. It is safe for concurrent use.
type Executor struct {
	config   *rest.Config
	pods     *corev1client.CoreV1Client
	retryFor time.Duration
}

// NewExecutor returns an executor that tries for up to retryFor to reach the API server. The rate limits of config do
// not apply.
func NewExecutor(config *rest.Config, retryFor time.Duration) (*Executor, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.RateLimiter = -1, nil
	client, err := corev1client.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client for pods: %w", err)
	}
	return &Executor{config: config, pods: client, retryFor: retryFor}, nil
}

// call is a command in a container.
type call struct {
	namespace, pod, container string
	command                   []string
	timeout                   time.Duration
}

// ran holds the beginning and the end of the output of a command.
type ran struct{ stdout, stderr output }

// errTimeout means that a command did not finish in time. It may continue in its container.
var errTimeout = errors.New("not done in time")

// run runs a command and returns when it has exited and its output is closed, when its time is over, or when ctx ends.
// A command is started at most once: a request is repeated only if it certainly did not arrive.
func (x *Executor) run(ctx context.Context, c call) (*ran, error) {
	began, backoff := time.Now(), kubeapi.Backoff()
	for {
		result, err := x.try(ctx, c)
		if err == nil || ctx.Err() != nil || !notArrived(err) || time.Since(began) > x.retryFor {
			return result, err
		}
		if err := kubeapi.Pause(ctx, backoff, err); err != nil {
			return result, err
		}
	}
}

// try makes one request, by WebSocket, or by SPDY if a proxy does not support WebSockets.
func (x *Executor) try(ctx context.Context, c call) (*ran, error) {
	address := x.pods.RESTClient().Post().Resource("pods").Namespace(c.namespace).Name(c.pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Container: c.container, Command: c.command, Stdout: true, Stderr: true},
			scheme.ParameterCodec).URL()
	socket, err := remotecommand.NewWebSocketExecutor(x.config, http.MethodGet, address.String())
	if err != nil {
		return nil, err
	}
	both, err := remotecommand.NewFallbackExecutor(socket, &spdy{x.config, address}, worthSPDY)
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	result := new(ran)
	quiet := klog.NewContext(limited, logr.Discard()) // it would report that output was cut off
	err = both.StreamWithContext(quiet, remotecommand.StreamOptions{Stdout: &result.stdout, Stderr: &result.stderr})
	// The goroutines of the call may write for a short time after its end.
	result.stdout.close()
	result.stderr.close()
	switch {
	case err == nil:
		return result, nil
	case ctx.Err() != nil:
		return result, context.Cause(ctx)
	case limited.Err() != nil:
		return result, fmt.Errorf("%w: the limit is %s; processes that it leaves behind must close its output", errTimeout,
			c.timeout)
	}
	if exit, ok := errors.AsType[utilexec.CodeExitError](err); ok {
		err = fmt.Errorf("exit code %d", exit.Code)
		if text := result.stderr.last(); text != "" {
			err = fmt.Errorf("%w: %s", err, shorten.Text(text, maxReason))
		}
		return result, err
	}
	return result, replyOf(err)
}

// spdy runs a command by SPDY. Most requests do not need it, so nothing is prepared in advance.
type spdy struct {
	config *rest.Config
	url    *url.URL
}

func (s *spdy) Stream(options remotecommand.StreamOptions) error {
	return s.StreamWithContext(context.Background(), options)
}

func (s *spdy) StreamWithContext(ctx context.Context, options remotecommand.StreamOptions) error {
	executor, err := remotecommand.NewSPDYExecutor(s.config, http.MethodPost, s.url)
	if err != nil {
		return err
	}
	return executor.StreamWithContext(ctx, options)
}

// maxReason is the maximum number of bytes of a command's output in an error.
const maxReason = 300

// worthSPDY reports whether a request that failed by WebSocket may succeed by SPDY.
func worthSPDY(err error) bool {
	return (httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)) &&
		!apierrors.IsNotFound(replyOf(err)) && !notArrived(err)
}

// replyOf returns the error in the API server's reply to a request that failed by WebSocket.
func replyOf(err error) error {
	if failure, ok := errors.AsType[*httpstream.UpgradeFailureError](err); ok {
		return failure.Cause
	}
	return err
}

// notArrived reports whether a failed request cannot have started a command, and may succeed later.
func notArrived(err error) bool {
	reply := replyOf(err)
	return kubeapi.IsDialError(reply) || apierrors.IsTooManyRequests(reply) || apierrors.IsServiceUnavailable(reply)
}
