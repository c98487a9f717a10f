package services

import "github.com/cleat-dev/cleat/plugins/itemactions/internal/field"

// owned is the part of field ownership that concerns the spec, one element per manager. The API server itself owns no
// fields, so every field in it was set by a client.
type owned []map[string]any

// ownedFields reads the managed fields of service.
func ownedFields(service map[string]any) (owned, error) {
	entries, err := field.Objects(service, "metadata", "managedFields")
	if err != nil {
		return nil, err
	}
	var fields owned
	for i, entry := range entries {
		spec, err := field.Object(entry, "fieldsV1", "f:spec")
		if err != nil {
			return nil, field.In("metadata.managedFields", i, err)
		}
		if _, err := field.Object(entry, "fieldsV1", "f:spec", "f:ports"); err != nil {
			return nil, field.In("metadata.managedFields", i, err)
		}
		if spec != nil {
			fields = append(fields, spec)
		}
	}
	return fields, nil
}

// ownNodePort reports whether a manager owns the node port of p.
func (o owned) ownNodePort(p port) bool {
	for _, spec := range o {
		ports, _ := spec["f:ports"].(map[string]any)
		of, _ := ports[p.key()].(map[string]any)
		if _, there := of["f:nodePort"]; there {
			return true
		}
	}
	return false
}

// ownHealthCheckNodePort reports whether a manager owns the health check node port.
func (o owned) ownHealthCheckNodePort() bool {
	for _, spec := range o {
		if _, there := spec["f:healthCheckNodePort"]; there {
			return true
		}
	}
	return false
}
