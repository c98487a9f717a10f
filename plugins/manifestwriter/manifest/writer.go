package manifest

import (
	"context"
	"os"
	"slices"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/manifest"
	manifestwriter "github.com/cleat-dev/cleat/framework/manifestwriter/v1"
)

const (
	// Name is the registered name of the writer.
	Name = "cleat.dev/manifest"
	// Artifact is the name of the file that it writes.
	Artifact = manifest.FileName
)

type config struct {
	OmitAnnotations []string `json:"omitAnnotations,omitempty" jsonschema:"Keys of annotations that are left out of all items."`
}

func defaults() config {
	return config{OmitAnnotations: manifest.OmittedByDefault()}
}

// Register returns the writer's registration.
func Register() framework.Registration {
	return manifestwriter.Register(Name, func(_ context.Context, setup *framework.Setup) (manifestwriter.ManifestWriter,
		error) {
		return writer{framework.Config[config](setup)}, nil
	}, framework.WithConfig(defaults()))
}

type writer struct{ config config }

var _ manifestwriter.ManifestWriter = writer{}

// Write implements manifestwriter.ManifestWriter.
func (w writer) Write(_ context.Context, input *manifestwriter.WriteInput) error {
	file, err := input.Artifacts.Create(Artifact)
	if err != nil {
		return err
	}
	header := w.header(input.Backup)
	written, err := manifest.NewWriter(file, header, manifest.Options{Dir: os.Getenv("VELERO_SCRATCH_DIR")})
	if err != nil {
		return err
	}
	defer written.Abort()
	for item, err := range input.Items {
		if err != nil {
			return err
		}
		document := item.Document()
		header.Omit(document)
		if err := written.Add(document); err != nil {
			return err
		}
	}
	return written.Close()
}

func (w writer) header(backup *velerov1.Backup) manifest.Header {
	described := manifest.Backup{
		Name: backup.Name, Namespace: backup.Namespace, UID: string(backup.UID),
		DryRun: backup.Annotations["cleat.dev/dry-run"] == "true",
	}
	if started := backup.Status.StartTimestamp; started != nil {
		utc := started.UTC()
		described.Started = &utc
	}
	return manifest.Header{Backup: described,
		OmittedAnnotations: slices.Compact(slices.Sorted(slices.Values(w.config.OmitAnnotations)))}
}
