package console

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/cleat-dev/cleat/server/app"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/status/drawing"
	"github.com/cleat-dev/cleat/server/internal/console"
)

// gcPercent has the heap collected early: the first look of each viewer lists all backups, and would otherwise leave
// the process with twice the memory that it needs.
const gcPercent = 30

// flags are the flags of the command.
type flags struct {
	port      int
	noBrowser bool
	inCluster bool
	listen    string
	hosts     []string
	cert, key string
	recheck   time.Duration
}

// NewCommand returns the command "console".
func NewCommand(a *command.App) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "console",
		Short: "Show the queue, the runs and the plugins in a browser",
		Long: "Show the queue, the runs and the plugins in a browser, until ctrl-c. Without --in-cluster the pages are at " +
			"a loopback address,\n" +
			"and whoever opens the link that is printed sees and does what the user of the kubeconfig may. A link works once, " +
			"and for a minute;\n" +
			"enter prints another one. With --in-cluster each request has the rights of its own bearer token, from a form or " +
			"from a proxy in\n" +
			"front, and the console has none.",
		Example: "  cleat console\n  cleat console --port 8080 --no-browser",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), a) },
	}
	set := cmd.Flags()
	set.IntVar(&f.port, "port", 0, "port on the loopback addresses; 0 for a free one")
	set.BoolVar(&f.noBrowser, "no-browser", false, "only print the link")
	set.BoolVar(&f.inCluster, "in-cluster", false,
		"serve all who have a bearer token of the cluster, with the rights of that token")
	set.StringVar(&f.listen, "listen", ":8443", "address to listen at with --in-cluster")
	set.StringSliceVar(&f.hosts, "host", nil,
		"host, with its port unless that is the default, under which the console is reached with --in-cluster; others are "+
			"refused. Empty for any. Without --in-cluster the name of one, instead of one below localhost that nobody else "+
			"knows")
	set.StringVar(&f.cert, "tls-cert-file", "", "certificate for --in-cluster; empty if a proxy in front has one")
	set.StringVar(&f.key, "tls-private-key-file", "", "key of --tls-cert-file")
	set.DurationVar(&f.recheck, "recheck", time.Minute,
		"how often the API server is asked whether an open page may still be seen, at least a second")
	return cmd
}

// check returns an error about flags that do not go together.
func (f *flags) check() error {
	switch {
	case f.recheck < time.Second:
		return fmt.Errorf("--recheck %s: want at least 1s", f.recheck)
	case f.port < 0 || f.port > 65535:
		return fmt.Errorf("--port %d: want 0 to 65535", f.port)
	case f.inCluster && f.port != 0:
		return errors.New("--port is for a console on a loopback address; with --in-cluster use --listen")
	case !f.inCluster && (f.cert != "" || f.key != ""):
		return errors.New("--tls-cert-file and --tls-private-key-file are for --in-cluster")
	case !f.inCluster && (len(f.hosts) > 1 || strings.Contains(f.name(), ":")):
		return fmt.Errorf("--host %s: want one name without a port; with --in-cluster there may be several",
			strings.Join(f.hosts, ","))
	case (f.cert == "") != (f.key == ""):
		return errors.New("--tls-cert-file and --tls-private-key-file go together")
	default:
		return nil
	}
}

// name returns the name of the host of a console on a loopback address, "" for one that nobody else knows.
func (f *flags) name() string {
	if f.inCluster || len(f.hosts) == 0 {
		return ""
	}
	return f.hosts[0]
}

func (f *flags) run(ctx context.Context, a *command.App) error {
	if err := f.check(); err != nil {
		return err
	}
	ctrl.SetLogger(logr.Discard()) // pages say what is wrong
	debug.SetGCPercent(gcPercent)
	namespace, err := a.Cluster.NamespaceOrDefault()
	if err != nil {
		return err
	}
	config, err := f.config(a)
	if err != nil {
		return err
	}
	listeners, err := f.listeners(ctx)
	if err != nil {
		return err
	}
	for _, listener := range listeners {
		defer listener.Close() //nolint:errcheck // the server has closed it
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var door console.Door
	var loopback *console.Loopback
	if f.inCluster {
		door = console.NewCluster(config, f.hosts...)
	} else {
		_, port, err := net.SplitHostPort(listeners[0].Addr().String())
		if err != nil {
			return err
		}
		loopback = console.NewLoopback(config, port, f.name())
		door = loopback
	}
	handler, err := newConsole(ctx, a, door, namespace, f.recheck)
	if err != nil {
		return err
	}
	if loopback != nil {
		fmt.Fprintf(a.Out, "The console of namespace %s at %s:\n\n", namespace, config.Host)
		printLink(a.Out, loopback)
		fmt.Fprintln(a.Out, "Whoever opens this link, once and within a minute, has your rights. Enter prints another one, "+
			"and ctrl-c ends the console.")
		go printLinks(a.Out, loopback)
		if !f.noBrowser {
			file, err := newLinkFile(loopback)
			if err != nil {
				fmt.Fprintf(a.Err, "no browser is opened: %v\n", err)
			} else {
				defer file.remove()
				openBrowser(ctx, file.path)
			}
		}
	} else {
		fmt.Fprintf(a.Out, "The console of namespace %s listens at %s\n", namespace, listeners[0].Addr())
	}
	return serve(ctx, listeners, handler, f.cert, f.key)
}

// config returns the address of the API server, and for a console on a loopback address the rights of the user.
func (f *flags) config(a *command.App) (*rest.Config, error) {
	config, err := a.Cluster.RestConfig()
	if err == nil || !f.inCluster {
		return config, err
	}
	// A pod without a token of its own has the address of the API server and its certificate alone.
	const ca = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if _, missing := os.Stat(ca); host == "" || missing != nil {
		return nil, err
	}
	return &rest.Config{Host: "https://" + net.JoinHostPort(host, port),
		TLSClientConfig: rest.TLSClientConfig{CAFile: ca}}, nil
}

// newConsole returns the console with all pages.
func newConsole(
	ctx context.Context, a *command.App, door console.Door, namespace string, recheck time.Duration,
) (*console.Server, error) {
	scheme, err := app.Scheme()
	if err != nil {
		return nil, err
	}
	return console.New(ctx, console.Options{
		Door: door, Namespace: namespace, Scheme: scheme, Pages: pages(a), Templates: templates(), Styles: drawing.Style,
		Version: a.Version, Recheck: recheck, Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
}

// serve serves until ctx ends. Open pages do not delay the end.
func serve(ctx context.Context, listeners []net.Listener, handler http.Handler, cert, key string) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10, TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	ended := make(chan error, len(listeners))
	for _, listener := range listeners {
		go func() {
			if cert != "" {
				ended <- server.ServeTLS(listener, cert, key)
				return
			}
			ended <- server.Serve(listener)
		}()
	}
	select {
	case err := <-ended:
		return fmt.Errorf("serve the console: %w", err)
	case <-ctx.Done():
		_ = server.Close() // whoever has a page open sees that the console has ended
		for range listeners {
			<-ended
		}
		return nil
	}
}
