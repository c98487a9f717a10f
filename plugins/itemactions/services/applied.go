package services

import (
	"encoding/json"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/plugins/itemactions/internal/field"
)

// lastAppliedAnnotation holds the object as the user wrote it, as JSON; kubectl apply sets it.
const lastAppliedAnnotation = "kubectl.kubernetes.io/last-applied-configuration"

// applied is the part of the user's object that concerns node ports.
type applied struct {
	names               map[string]bool // of ports with a node port
	unnamed             map[int64]bool  // node ports of ports without a name
	healthCheckNodePort int64           // 0 when none was written
}

// chose reports whether the user set a node port for p. A port without a name is identified by its node port.
func (a applied) chose(p port) bool {
	if p.name == "" {
		return a.unnamed[p.nodePort]
	}
	return a.names[p.name]
}

// lastApplied reads the annotation of service. It returns false if there is none.
func lastApplied(service map[string]any) (applied, bool, error) {
	annotations, err := field.Object(service, "metadata", "annotations")
	if err != nil {
		return applied{}, false, err
	}
	if annotations[lastAppliedAnnotation] == nil {
		return applied{}, false, nil
	}
	text, err := field.Text(annotations, lastAppliedAnnotation)
	if err != nil {
		return applied{}, false, err
	}
	var written struct {
		Spec struct {
			Ports []struct {
				Name     string      `json:"name"`
				NodePort json.Number `json:"nodePort"` // users may quote it
			} `json:"ports"`
			HealthCheckNodePort json.Number `json:"healthCheckNodePort"`
		} `json:"spec"`
	}
	if err := json.Unmarshal([]byte(text), &written); err != nil {
		return applied{}, false, framework.Errorf("metadata.annotations[%s] is not a Service in JSON: %w",
			lastAppliedAnnotation, err)
	}
	found := applied{names: map[string]bool{}, unnamed: map[int64]bool{}}
	for _, p := range written.Spec.Ports {
		nodePort, err := number(p.NodePort)
		if err != nil {
			return applied{}, false, err
		}
		switch {
		case nodePort <= 0:
		case p.Name == "":
			found.unnamed[nodePort] = true
		default:
			found.names[p.Name] = true
		}
	}
	found.healthCheckNodePort, err = number(written.Spec.HealthCheckNodePort)
	return found, true, err
}

// number returns the value of n, or 0 if it is absent or null.
func number(n json.Number) (int64, error) {
	if n == "" {
		return 0, nil
	}
	value, err := n.Int64()
	if err != nil {
		return 0, framework.Errorf("metadata.annotations[%s] has the node port %s, want a whole number",
			lastAppliedAnnotation, n)
	}
	return value, nil
}
