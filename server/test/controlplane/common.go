package controlplane

import (
	"encoding/json"
	"fmt"
	"os"
)

// commonVariable is an environment variable with the path of a file that describes a running cluster, as "localcluster
// run -record" writes it. "make test" sets it.
const commonVariable = "CLEAT_TEST_CLUSTER"

// common returns the cluster that the environment names, or nil if it names none.
func common() (*Cluster, error) {
	path := os.Getenv(commonVariable)
	if path == "" {
		return nil, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the cluster that %s names: %w", commonVariable, err)
	}
	c := new(Cluster)
	if err := json.Unmarshal(data, c); err != nil {
		return nil, fmt.Errorf("read the cluster that %s names in %s: %w", commonVariable, path, err)
	}
	if c.APIServer == "" || c.Kubeconfig == "" {
		return nil, fmt.Errorf("%s, which %s names, describes no cluster: want a file of localcluster run -record", path,
			commonVariable)
	}
	return c, nil
}
