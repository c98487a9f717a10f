package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/app"
	"github.com/cleat-dev/cleat/server/internal/kube/readable"
)

// ClusterFlags name the cluster of a command, and the namespace of the server.
type ClusterFlags struct {
	Kubeconfig, kubecontext, Namespace string
}

// Add adds the flags.
func (f *ClusterFlags) Add(flags *pflag.FlagSet) {
	flags.StringVar(&f.Kubeconfig, "kubeconfig", "",
		"kubeconfig file; empty for $KUBECONFIG, ~/.kube/config, or the cluster that the command runs in")
	flags.StringVar(&f.kubecontext, "kubecontext", "", "context in the kubeconfig file; empty for the current one")
	flags.StringVarP(&f.Namespace, "namespace", "n", "",
		"namespace of the server; empty for $VELERO_NAMESPACE, the client's configuration file, or "+defaultNamespace)
}

// Parse parses these flags among the arguments of a server and skips all others.
func (f *ClusterFlags) Parse(args []string) error {
	flags := pflag.NewFlagSet("run-plugins", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	flags.SetOutput(io.Discard)
	f.Add(flags)
	if err := flags.Parse(args); err != nil && !errors.Is(err, pflag.ErrHelp) {
		return fmt.Errorf("read the server's flags: %w", err)
	}
	return nil
}

// RestConfig returns the configuration for clients of the API server.
func (f *ClusterFlags) RestConfig() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.Kubeconfig
	overrides := &clientcmd.ConfigOverrides{CurrentContext: f.kubecontext}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("find the cluster (name a file with --kubeconfig or $KUBECONFIG): %w", err)
	}
	return config, nil
}

// NamespaceOrDefault returns the server's namespace: from the flag, the environment, or the configuration file of the
// client, in this order, or the default.
func (f *ClusterFlags) NamespaceOrDefault() (string, error) {
	if f.Namespace != "" {
		return f.Namespace, nil
	}
	if namespace := os.Getenv("VELERO_NAMESPACE"); namespace != "" {
		return namespace, nil
	}
	c, err := ReadClientConfig()
	if err != nil {
		return "", err
	}
	namespace, err := c.Text("namespace")
	return cmp.Or(namespace, defaultNamespace), err
}

// Connect returns a connection to the cluster that the flags name.
func (f *ClusterFlags) Connect() (*Cluster, error) {
	config, err := f.RestConfig()
	if err != nil {
		return nil, err
	}
	namespace, err := f.NamespaceOrDefault()
	if err != nil {
		return nil, err
	}
	scheme, err := app.Scheme()
	if err != nil {
		return nil, err
	}
	config.QPS = -1 // commands are short; the default of 5 a second would delay an installation by seconds
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", config.Host, err)
	}
	pods, err := corev1client.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", config.Host, err)
	}
	return &Cluster{WithWatch: c, Namespace: namespace, Pods: pods.Pods(namespace)}, nil
}

// defaultNamespace is the server's namespace unless another is given.
const defaultNamespace = "velero"

// Cluster is the connection of a command to the cluster.
type Cluster struct {
	client.WithWatch
	Namespace string
	Pods      corev1client.PodInterface // of the namespace, for their logs
}

// List lists objects of the cluster. It names objects that cannot be decoded, and leaves them out.
func (s *Cluster) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	return readable.List(ctx, s.WithWatch, s.Scheme(), list, func(err error) { fmt.Fprintln(os.Stderr, "Left out:", err) },
		options...)
}

// Key returns the key of an object in the server's namespace.
func (s *Cluster) Key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: s.Namespace, Name: name}
}

// LocationOf returns the name of the location of a backup.
func (s *Cluster) LocationOf(ctx context.Context, backup string) (string, error) {
	var b velerov1.Backup
	err := s.Get(ctx, s.Key(backup), &b)
	return b.Spec.StorageLocation, err
}
