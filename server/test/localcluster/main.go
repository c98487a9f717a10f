package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/cleat-dev/cleat/server/test/localcluster/node"
)

const usage = `localcluster runs a Kubernetes control plane and an S3 server from Go modules.

  localcluster run [flags] -- CMD...  run CMD with a new cluster, stop the cluster, exit with CMD's exit code
  localcluster serve [flags]          run a cluster until EOF on stdin, SIGINT or SIGTERM
  localcluster build                  only build the programs, cached by version, and say whether a node can run

Flags of run and serve:
  -s3-tls                   serve S3 over https, with a certificate signed by the cluster's CA
  -apiserver-flag FLAG      additional flag for kube-apiserver; may be repeated
  -kcm-flag FLAG            additional flag for kube-controller-manager; may be repeated
  -node                     with a kubelet, which runs pods; needs Linux, root and Debian packages
  -csi-socket PATH          have the controllers for a CSI driver there, which the commands of serve start
Flags of run:
  -record FILE              describe the cluster in FILE, in JSON as serve does, instead of in CMD's environment

Environment:
  KUBEBUILDER_ASSETS        a directory with etcd and kube-apiserver to use instead of building them
  XDG_CACHE_HOME            the directory for built programs (default ~/.cache)
`

func main() {
	// If the parent has exited, nothing reads the output. SIGPIPE must not end
	// this process before the cluster is stopped.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	err := command(ctx, os.Args[1:])
	cancel()
	var exit commandExit
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
	case errors.As(err, &exit):
		os.Exit(int(exit))
	default:
		fmt.Fprintf(os.Stderr, "localcluster: %v\n", err)
		os.Exit(1)
	}
}

// command runs the command in args. The error is a commandExit if the user's
// command of "run" has failed.
func command(ctx context.Context, args []string) error {
	if len(args) == 0 {
		fmt.Fprint(os.Stderr, usage)
		return errors.New("a command is missing: run, serve or build")
	}
	name, args := args[0], args[1:]
	switch name {
	case nodeName: // the first process of a node
		return node.Main(ctx, strings.Join(args, " "))
	case "pause": // the sandbox of a pod
		<-ctx.Done()
		return nil
	case "help", "-h", "-help", "--help":
		fmt.Print(usage)
		return nil
	case "run", "serve", "build":
	default:
		return fmt.Errorf("unknown command %q: want run, serve or build", name)
	}

	o, rest, err := parseOptions(name, args)
	if err != nil {
		return err
	}
	if name != "run" && len(rest) > 0 {
		return fmt.Errorf("%s takes no arguments, got %q", name, rest)
	}
	programs, err := ensurePrograms(ctx, os.Stderr)
	if err != nil {
		return err
	}
	if name == "build" {
		if err := ensureNode(ctx, os.Stderr); err != nil {
			fmt.Fprintf(os.Stderr, "localcluster: %v\n", err)
		}
		return nil
	}
	if name == "run" {
		return run(ctx, programs, o, rest)
	}
	return serve(ctx, programs, o, os.Stdin, os.Stdout)
}

// options are the flags of a command.
type options struct {
	s3TLS          bool
	node           bool
	apiserverFlags []string
	kcmFlags       []string
	csiSocket      string
	record         string
}

func parseOptions(name string, args []string) (options, []string, error) {
	var o options
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.Usage = func() { fmt.Fprint(os.Stderr, usage) }
	if name == "run" || name == "serve" {
		fs.BoolVar(&o.node, "node", false, "")
		fs.BoolVar(&o.s3TLS, "s3-tls", false, "")
		fs.Var((*repeated)(&o.apiserverFlags), "apiserver-flag", "")
		fs.Var((*repeated)(&o.kcmFlags), "kcm-flag", "")
		fs.StringVar(&o.csiSocket, "csi-socket", "", "")
	}
	if name == "run" {
		fs.StringVar(&o.record, "record", "", "")
	}
	err := fs.Parse(args)
	return o, fs.Args(), err
}

// repeated is a flag that may be repeated.
type repeated []string

func (r *repeated) String() string     { return strings.Join(*r, " ") }
func (r *repeated) Set(v string) error { *r = append(*r, v); return nil }
