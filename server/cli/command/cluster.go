package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cleat-dev/cleat/server/app"
)

// clusterFlags say which cluster, and which namespace of it, a command is about.
type ClusterFlags struct {
	Kubeconfig, kubecontext, Namespace string
}

func (f *ClusterFlags) Add(flags *pflag.FlagSet) {
	flags.StringVar(&f.Kubeconfig, "kubeconfig", "", "kubeconfig file; empty for $KUBECONFIG, ~/.kube/config, or the cluster that it runs in")
	flags.StringVar(&f.kubecontext, "kubecontext", "", "context of the kubeconfig file; empty for its current one")
	flags.StringVarP(&f.Namespace, "namespace", "n", "", "namespace of the server; empty for $VELERO_NAMESPACE, the client's configuration file, or "+defaultNamespace)
}

// parse reads the flags among the server's arguments and skips all others.
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

// restConfig is how to reach the API server.
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

// namespaceOrDefault is the server's namespace: the flag's, the environment's, that of the client's
// configuration file, or the default.
func (f *ClusterFlags) NamespaceOrDefault() (string, error) {
	if f.Namespace != "" {
		return f.Namespace, nil
	}
	if namespace := os.Getenv("VELERO_NAMESPACE"); namespace != "" {
		return namespace, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return defaultNamespace, nil //nolint:nilerr // without a home there is no file
	}
	path := filepath.Join(home, ".config", "velero", "config.json")
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return defaultNamespace, nil
	}
	if err != nil {
		return "", fmt.Errorf("read the client's configuration: %w", err)
	}
	var file struct {
		Namespace string `json:"namespace"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return "", fmt.Errorf(`read the client's configuration %s, want {"namespace": "..."}: %w`, path, err)
	}
	if file.Namespace == "" {
		return defaultNamespace, nil
	}
	return file.Namespace, nil
}

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
	config.QPS = -1 // a command ends soon; the default of 5 a second makes an installation wait for seconds
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", config.Host, err)
	}
	return &Cluster{WithWatch: c, Namespace: namespace}, nil
}

// defaultNamespace is the server's namespace when nothing says it.
const defaultNamespace = "velero"

// session is a command's connection to the cluster.
type Cluster struct {
	client.WithWatch
	Namespace string
}

// key names an object in the server's namespace.
func (s *Cluster) Key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: s.Namespace, Name: name}
}
