package suite

import (
	"os"
	"slices"
	"strings"

	"google.golang.org/grpc/status"

	"github.com/cleat-dev/cleat/framework/hostenv"
)

// HasCluster reports whether the environment of the plugin names a cluster.
func (s *Suite) HasCluster() bool {
	return slices.ContainsFunc(hostenv.Environ(os.Environ(), s.Environment...), func(variable string) bool {
		name, value, _ := strings.Cut(variable, "=")
		return (name == "KUBECONFIG" || name == "KUBERNETES_SERVICE_HOST") && value != ""
	})
}

// NeedsCluster reports whether an error says that there is no cluster, as the clients of Kubernetes word it.
func NeedsCluster(err error) bool {
	text := strings.ToLower(status.Convert(err).Message())
	return slices.ContainsFunc([]string{
		"in-cluster", "kubernetes_service_host", "kubeconfig", "no configuration has been provided", "serviceaccount/token",
		"api server", "cluster",
	}, func(word string) bool { return strings.Contains(text, word) })
}
