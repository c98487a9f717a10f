package results

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
)

// Results are the errors and warnings of one run, in the format of Velero's results file.
type Results struct {
	Errors   Result `json:"errors"`
	Warnings Result `json:"warnings"`
}

// Result is a list of messages, grouped by their subject.
type Result struct {
	// Velero are the messages about the run itself and about the server.
	Velero []string `json:"velero,omitempty"`
	// Cluster are the messages about cluster-scoped objects.
	Cluster []string `json:"cluster,omitempty"`
	// Namespaces are the messages about namespaced objects, by namespace.
	Namespaces map[string][]string `json:"namespaces,omitempty"`
}

// AddVelero adds a message about the run itself.
func (r *Result) AddVelero(message string) {
	r.Velero = append(r.Velero, message)
}

// Add adds a message about an object in a namespace, or about a cluster-scoped object if namespace is empty.
func (r *Result) Add(namespace, message string) {
	if namespace == "" {
		r.Cluster = append(r.Cluster, message)
		return
	}
	if r.Namespaces == nil {
		r.Namespaces = make(map[string][]string)
	}
	r.Namespaces[namespace] = append(r.Namespaces[namespace], message)
}

// Merge adds all messages of other.
func (r *Result) Merge(other Result) {
	r.Velero = append(r.Velero, other.Velero...)
	r.Cluster = append(r.Cluster, other.Cluster...)
	for _, namespace := range slices.Sorted(maps.Keys(other.Namespaces)) {
		for _, message := range other.Namespaces[namespace] {
			r.Add(namespace, message)
		}
	}
}

// MergeNew adds the messages of other that r does not have yet.
func (r *Result) MergeNew(other Result) {
	r.Velero = union(r.Velero, other.Velero)
	r.Cluster = union(r.Cluster, other.Cluster)
	for namespace, messages := range other.Namespaces {
		if r.Namespaces == nil {
			r.Namespaces = make(map[string][]string)
		}
		r.Namespaces[namespace] = union(r.Namespaces[namespace], messages)
	}
}

// union returns all with the elements of more that are not in it.
func union(all, more []string) []string {
	known := make(map[string]bool, len(all))
	for _, message := range all {
		known[message] = true
	}
	for _, message := range more {
		if !known[message] {
			all = append(all, message)
		}
	}
	return all
}

// Count returns the number of messages, as in status.errors and status.warnings.
func (r Result) Count() int {
	n := len(r.Velero) + len(r.Cluster)
	for _, messages := range r.Namespaces {
		n += len(messages)
	}
	return n
}

func (r Result) clone() Result {
	out := Result{Velero: slices.Clone(r.Velero), Cluster: slices.Clone(r.Cluster)}
	if r.Namespaces != nil {
		out.Namespaces = make(map[string][]string, len(r.Namespaces))
		for namespace, messages := range r.Namespaces {
			out.Namespaces[namespace] = slices.Clone(messages)
		}
	}
	return out
}

// Merge adds all messages of other.
func (r *Results) Merge(other Results) {
	r.Errors.Merge(other.Errors)
	r.Warnings.Merge(other.Warnings)
}

// Encode writes the results as JSON, uncompressed.
func (r Results) Encode(w io.Writer) error {
	if err := json.NewEncoder(w).Encode(r); err != nil {
		return fmt.Errorf("encode results: %w", err)
	}
	return nil
}
