package v1

import (
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Cluster returns the configuration of a client: from the file that KUBECONFIG names, or else from the service account
// of the pod.
func Cluster() (*rest.Config, error) {
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(),
		nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("find the cluster (KUBECONFIG, or a pod's service account): %w", err)
	}
	config.QPS = -1 // no limit on this side; the API server has its own
	return config, nil
}
