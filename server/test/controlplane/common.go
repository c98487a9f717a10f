package controlplane

import (
	"encoding/json"
	"fmt"
	"os"
)

// These environment variables have the path of a file that describes a running cluster, in the format of "localcluster
// run -record". "make test" sets them.
const (
	commonVariable  = "CLEAT_TEST_CLUSTER"
	serversVariable = "CLEAT_TEST_SERVERS"
)

// common returns the cluster that an environment variable names, or nil if it names none.
func common(variable string) (*Cluster, error) {
	path := os.Getenv(variable)
	if path == "" {
		return nil, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the cluster that %s names: %w", variable, err)
	}
	c := new(Cluster)
	if err := json.Unmarshal(data, c); err != nil {
		return nil, fmt.Errorf("read the cluster that %s names in %s: %w", variable, path, err)
	}
	if c.APIServer == "" || c.Kubeconfig == "" {
		return nil, fmt.Errorf("%s, which %s names, describes no cluster: want a file of localcluster run -record", path,
			variable)
	}
	return c, nil
}
