package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/cleat-dev/cleat/framework"
	mwv1 "github.com/cleat-dev/cleat/framework/manifestwriter/v1"
)

// inventoryFile is the name of the artifact of inventory.
const inventoryFile = "images.jsonl"

// workloads returns the resources that name images.
func workloads() []string {
	return []string{
		"pods", "replicationcontrollers", "replicasets.apps", "deployments.apps", "statefulsets.apps", "daemonsets.apps",
		"jobs.batch", "cronjobs.batch",
	}
}

// image is one line of the inventory.
type image struct {
	Image string `json:"image"`
	// Digests are the digests that pods of the backup ran, "registry.example.io/web@sha256:...".
	Digests []string `json:"digests,omitempty"`
	// UsedBy are the first objects that name the image, "deployments.apps shop/web", and Count is their total number.
	UsedBy []string `json:"usedBy"`
	Count  int      `json:"count"`

	last string // the last counted object
}

// maxUsers is the maximum number of objects in a line.
const maxUsers = 20

// inventory lists the images of a backup, which a registry must have for a restore to work.
type inventory struct{}

func newInventory(context.Context, *framework.Setup) (mwv1.ManifestWriter, error) {
	return inventory{}, nil
}

// Write implements mwv1.ManifestWriter. A repeated item replaces the earlier one, so the images are stored by item.
func (inventory) Write(ctx context.Context, input *mwv1.WriteInput) error {
	found := map[string][]used{} // by user
	for item, err := range input.Items {
		if err != nil {
			return err
		}
		if item.Object == nil {
			continue
		}
		user := userOf(item)
		images, err := imagesOf(item.Object)
		if err != nil {
			framework.Log(ctx).Debug("object cannot be read", "object", user, "error", err)
		}
		if len(images) > 0 {
			found[user] = images
		} else {
			delete(found, user)
		}
	}
	file, err := input.Artifacts.Create(inventoryFile)
	if err != nil {
		return err
	}
	lines := json.NewEncoder(file)
	lines.SetEscapeHTML(false)
	for _, line := range summarize(found) {
		if err := lines.Encode(line); err != nil {
			return err
		}
	}
	return nil
}

func userOf(item *mwv1.Item) string {
	resource, name := item.Resource, item.Name
	if item.Group != "" {
		resource += "." + item.Group
	}
	if item.Namespace != "" {
		name = item.Namespace + "/" + name
	}
	return resource + " " + name
}

// summarize returns the images by name.
func summarize(found map[string][]used) []image {
	lines := map[string]*image{}
	for _, user := range slices.Sorted(maps.Keys(found)) {
		for _, u := range found[user] {
			line := lines[u.image]
			if line == nil {
				line = &image{Image: u.image}
				lines[u.image] = line
			}
			if u.digest != "" && !slices.Contains(line.Digests, u.digest) {
				line.Digests = append(line.Digests, u.digest)
			}
			if line.last == user { // in several containers
				continue
			}
			line.last = user
			line.Count++
			if len(line.UsedBy) < maxUsers {
				line.UsedBy = append(line.UsedBy, user)
			}
		}
	}
	sorted := make([]image, 0, len(lines))
	for _, line := range lines {
		slices.Sort(line.Digests)
		sorted = append(sorted, *line)
	}
	slices.SortFunc(sorted, func(a, b image) int { return cmp.Compare(a.Image, b.Image) })
	return sorted
}

// used is an image that an object names.
type used struct{ image, digest string }

// podSpec is the part of a pod spec that names images.
type podSpec struct {
	InitContainers      []container `json:"initContainers"`
	Containers          []container `json:"containers"`
	EphemeralContainers []container `json:"ephemeralContainers"`
}

type container struct {
	Name    string `json:"name"`
	Image   string `json:"image"`
	ImageID string `json:"imageID"` // in a status
}

type template struct {
	Spec podSpec `json:"spec"`
}

// workload is the part of any workload that names images: of a pod, a resource with a pod template, or a CronJob.
type workload struct {
	Spec struct {
		podSpec
		Template    template `json:"template"`
		JobTemplate struct {
			Spec struct {
				Template template `json:"template"`
			} `json:"spec"`
		} `json:"jobTemplate"`
	} `json:"spec"`
	Status struct {
		InitContainers      []container `json:"initContainerStatuses"`
		Containers          []container `json:"containerStatuses"`
		EphemeralContainers []container `json:"ephemeralContainerStatuses"`
	} `json:"status"`
}

// imagesOf returns the images of an object, each once, with the digests of its status.
func imagesOf(object []byte) ([]used, error) {
	var w workload
	if err := json.Unmarshal(object, &w); err != nil {
		return nil, fmt.Errorf("decode the object: %w", err)
	}
	digests := map[string]string{} // by container
	for _, c := range slices.Concat(w.Status.InitContainers, w.Status.Containers, w.Status.EphemeralContainers) {
		digests[c.Name] = c.ImageID
	}
	var images []used
	for _, spec := range []podSpec{w.Spec.podSpec, w.Spec.Template.Spec, w.Spec.JobTemplate.Spec.Template.Spec} {
		for _, c := range slices.Concat(spec.InitContainers, spec.Containers, spec.EphemeralContainers) {
			u := used{image: c.Image, digest: digests[c.Name]}
			if c.Image != "" && !slices.Contains(images, u) {
				images = append(images, u)
			}
		}
	}
	return images, nil
}
