package itemlist

import (
	"context"
	"encoding/json"

	"github.com/cleat-dev/cleat/framework"
	manifestwriter "github.com/cleat-dev/cleat/framework/manifestwriter/v1"
)

const (
	// Name is the registered name of the writer.
	Name = "cleat.dev/item-list"
	// Artifact is the name of the file that it writes.
	Artifact = "items.jsonl"
)

type config struct {
	Labels bool `json:"labels,omitempty" jsonschema:"Whether a line has the labels of the item."`
}

// line is the entry of one item in the file.
type line struct {
	Group     string            `json:"group,omitempty"` // of the API; left out for core
	Version   string            `json:"version"`
	Resource  string            `json:"resource"` // plural
	Kind      string            `json:"kind"`
	Namespace string            `json:"namespace,omitempty"` // left out for a cluster-scoped object
	Name      string            `json:"name"`
	UID       string            `json:"uid,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
}

// Register returns the writer's registration.
func Register() framework.Registration {
	return manifestwriter.Register(Name, func(_ context.Context, setup *framework.Setup) (manifestwriter.ManifestWriter,
		error) {
		return writer{framework.Config[config](setup)}, nil
	}, framework.WithConfig(config{}))
}

type writer struct{ config config }

var _ manifestwriter.ManifestWriter = writer{}

// Write implements manifestwriter.ManifestWriter.
func (w writer) Write(_ context.Context, input *manifestwriter.WriteInput) error {
	file, err := input.Artifacts.Create(Artifact)
	if err != nil {
		return err
	}
	lines := json.NewEncoder(file)
	lines.SetEscapeHTML(false)
	for item, err := range input.Items {
		if err != nil {
			return err
		}
		l := line{
			Group: item.Group, Version: item.Version, Resource: item.Resource, Kind: item.Kind,
			Namespace: item.Namespace, Name: item.Name, UID: item.UID,
		}
		if w.config.Labels {
			l.Labels = item.Labels
		}
		if err := lines.Encode(l); err != nil {
			return err
		}
	}
	return nil
}
