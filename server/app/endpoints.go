package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"net/url"
	"os"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/cleat-dev/cleat/server/internal/spec/config"
)

// endpoints serves /metrics, /healthz and /readyz on one address, /debug/pprof on another and downloads on a third. A
// server that waits for the lease is ready; one that works is ready as soon as its cache is filled.
type endpoints struct {
	metrics, profiler string
	downloadAddress   string
	downloadListener  net.Listener // in place of the address; nil for none
	downloads         http.Handler // nil means none
	gatherer          prometheus.Gatherer
	cache             cache.Cache
	working, filled   atomic.Bool
	log               hclog.Logger
}

func newEndpoints(o config.Options, gatherer prometheus.Gatherer, cache cache.Cache, log hclog.Logger) *endpoints {
	return &endpoints{metrics: o.MetricsAddress, profiler: o.ProfilerAddress, downloadAddress: o.DownloadAddress,
		gatherer: gatherer, cache: cache, log: log.Named("endpoints")}
}

// setWorking notes that this server runs the controllers from now on.
func (e *endpoints) setWorking() { e.working.Store(true) }

// during serves the endpoints while work runs. It cancels work if serving fails.
func (e *endpoints) during(ctx context.Context, work func(context.Context) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	served := make(chan error, 1)
	go func() {
		err := e.serve(serving)
		if err != nil {
			stop(err)
		}
		served <- err
	}()
	err := work(ctx)
	stopServing()
	return errors.Join(<-served, err)
}

// serve serves until ctx ends. It returns an error if the metrics cannot be served; a failure of the profiler is only
// logged.
func (e *endpoints) serve(ctx context.Context) error {
	if e.profiler != "" {
		if listener, err := listen(ctx, e.profiler); err != nil {
			e.log.Warn("the profiler is not available, see --profiler-address", "error", err)
		} else {
			go func() {
				if err := serveHTTP(ctx, listener, profilerHandler()); err != nil {
					e.log.Warn("the profiler has stopped", "error", err)
				}
			}()
		}
	}
	go func() { e.filled.Store(e.cache.WaitForCacheSync(ctx)) }()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	served := make(chan error, 2)
	serving := 0
	for _, endpoint := range []struct {
		what, flag, address string
		listener            net.Listener
		handler             http.Handler
	}{
		{"metrics", "--metrics-address", e.metrics, nil, e.handler()},
		{"downloads", "--download-address", e.downloadAddress, e.downloadListener, e.downloads},
	} {
		if endpoint.handler == nil || endpoint.listener == nil && (endpoint.address == "" || endpoint.address == "0") {
			continue
		}
		listener := endpoint.listener
		if listener == nil {
			var err error
			if listener, err = listen(ctx, endpoint.address); err != nil {
				return fmt.Errorf("serve %s, see %s: %w", endpoint.what, endpoint.flag, err)
			}
		}
		e.log.Debug("serving "+endpoint.what, "address", listener.Addr().String())
		serving++
		go func() { served <- serveHTTP(ctx, listener, endpoint.handler) }()
	}
	var failed error
	for range serving {
		if err := <-served; err != nil {
			failed = err
			stop()
		}
	}
	return failed
}

func (e *endpoints) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(e.gatherer, promhttp.HandlerOpts{}))
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if e.working.Load() && !e.filled.Load() {
			http.Error(w, "the cache is being filled", http.StatusServiceUnavailable)
		}
	})
	return mux
}

func profilerHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

// localDownloads returns a listener for users on this machine, and its URL, if the server is not in a cluster, where
// nobody would reach it. Without it, they open the files of a directory themselves.
func localDownloads(ctx context.Context, log hclog.Logger) (net.Listener, *url.URL) {
	if os.Getenv("KUBERNETES_SERVICE_HOST") != "" {
		return nil, nil
	}
	listener, err := listen(ctx, "127.0.0.1:0")
	if err != nil {
		log.Warn("files of backups in a directory are not offered to users on this machine", "error", err)
		return nil, nil
	}
	return listener, &url.URL{Scheme: "http", Host: listener.Addr().String()}
}

func listen(ctx context.Context, address string) (net.Listener, error) {
	return new(net.ListenConfig).Listen(ctx, "tcp", address)
}

// serveHTTP answers requests until ctx ends.
func serveHTTP(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := newHTTPServer(handler)
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// newHTTPServer returns a server on which no client can keep a connection for long by being slow. A handler whose
// replies take longer to send, as downloads and profiles do, sets the deadline of each write itself.
func newHTTPServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      time.Minute,
		IdleTimeout:       90 * time.Second, // longer than most scrape intervals
		MaxHeaderBytes:    32 << 10,
	}
}
