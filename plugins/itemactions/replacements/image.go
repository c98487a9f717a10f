package replacements

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/cleat-dev/cleat/framework"
	riav1 "github.com/cleat-dev/cleat/framework/restoreitemaction/v1"
	"github.com/cleat-dev/cleat/plugins/itemactions/internal/field"
)

// ImageName is the name of the action that NewImage returns.
const ImageName = "velero.io/change-image-name"

// NewImage returns velero.io/change-image-name. Each value of its ConfigMap is "old,new": the images of containers and
// init containers that contain old get new in its place. Of several values that fit, the one with the first key counts.
func NewImage(read ReadSettings) (riav1.RestoreItemAction, error) {
	return &image{rules: settings{action: ImageName, read: read}}, nil
}

type image struct {
	rules settings
}

func (*image) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedResources: []string{
		"deployments", "statefulsets", "daemonsets", "replicasets", "replicationcontrollers", "jobs", "cronjobs", "pods",
	}}, nil
}

func (a *image) Execute(ctx context.Context, input *riav1.ExecuteInput) (*riav1.ExecuteOutput, error) {
	data, err := a.rules.of(ctx, input.Restore)
	if err != nil || len(data) == 0 {
		return nil, err
	}
	rules := parseRules(ctx, data)
	path := podSpec(input.Item.GetKind())
	changed := false
	for _, list := range []string{"containers", "initContainers"} {
		at := append(slices.Clone(path), list)
		containers, err := field.Objects(input.Item.Object, at...)
		if err != nil {
			return nil, err
		}
		for i, container := range containers {
			old, err := field.Text(container, "image")
			if err != nil {
				return nil, field.In(strings.Join(at, "."), i, err)
			}
			if replacement, found := rules.apply(old); found {
				container["image"] = replacement
				changed = true
				framework.Log(ctx).Debug("replaced an image", "from", old, "to", replacement)
			}
		}
	}
	if !changed {
		return nil, nil
	}
	return riav1.NewExecuteOutput(input.Item), nil
}

// podSpec returns the path to the spec of the pods in an object of a kind.
func podSpec(kind string) []string {
	switch kind {
	case "Pod":
		return []string{"spec"}
	case "CronJob":
		return []string{"spec", "jobTemplate", "spec", "template", "spec"}
	default:
		return []string{"spec", "template", "spec"}
	}
}

// imageRules are replacements of parts of images, in order.
type imageRules []struct{ from, to string }

// parseRules reads the values of the ConfigMap. One that is not "old,new" is skipped with a warning.
func parseRules(ctx context.Context, data map[string]string) imageRules {
	var rules imageRules
	for _, key := range slices.Sorted(maps.Keys(data)) {
		from, to, ok := strings.Cut(data[key], ",")
		from, to = strings.TrimSpace(from), strings.TrimSpace(to)
		if !ok || from == "" || to == "" {
			framework.Log(ctx).Warn("a value of the ConfigMap of "+ImageName+" is skipped, want OLD,NEW", "key", key, "value",
				data[key])
			continue
		}
		rules = append(rules, struct{ from, to string }{from, to})
	}
	return rules
}

// apply returns the image after the first rule that fits, and false if none does.
func (r imageRules) apply(image string) (string, bool) {
	for _, rule := range r {
		if strings.Contains(image, rule.from) {
			return strings.ReplaceAll(image, rule.from, rule.to), true
		}
	}
	return image, false
}
