package suite

import (
	"os"
	"slices"
	"strings"

	"google.golang.org/grpc/status"

	"github.com/cleat-dev/cleat/framework/hostenv"
)

// LacksCluster reports whether an error says that there is no cluster, and none is given in the way for which the plugin
// looks. With a kubeconfig, it does not run in the cluster: a plugin that takes its cluster from there still has none.
func (s *Suite) LacksCluster(err error) bool {
	given := func(variable string) bool {
		return slices.ContainsFunc(hostenv.Environ(os.Environ(), s.Environment...), func(one string) bool {
			name, value, _ := strings.Cut(one, "=")
			return name == variable && value != ""
		})
	}
	switch text := strings.ToLower(status.Convert(err).Message()); {
	case given("KUBERNETES_SERVICE_HOST"):
		return false
	case given("KUBECONFIG"):
		return mentions(text, "in-cluster", "kubernetes_service_host", "serviceaccount/token")
	default:
		return mentions(text, "in-cluster", "kubernetes_service_host", "kubeconfig", "no configuration has been provided",
			"serviceaccount/token", "api server", "cluster")
	}
}

// mentions reports whether a text has one of the words, by which the clients of Kubernetes say that there is no cluster.
func mentions(text string, words ...string) bool {
	return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(text, word) })
}
