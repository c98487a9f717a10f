package pods

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	riav1 "github.com/cleat-dev/cleat/framework/restoreitemaction/v1"
	"github.com/cleat-dev/cleat/plugins/itemactions/internal/field"
)

// Annotations of a pod with the init container that its restore adds.
const (
	// initImageAnnotation of a pod is the image of the init container that its restore adds.
	initImageAnnotation = "init.hook.restore.velero.io/container-image"
	// initNameAnnotation of a pod is the name of the init container that its restore adds.
	initNameAnnotation = "init.hook.restore.velero.io/container-name"
	// initCommandAnnotation of a pod is the command of the init container that its restore adds.
	initCommandAnnotation = "init.hook.restore.velero.io/command"
)

// waitContainer is the init container that waits for the data of the pod's volumes. It stays the first one.
const waitContainer = "restore-wait"

// NewInitHooks returns velero.io/init-restore-hook. It puts the init containers of a pod's annotations before the init
// containers of the pod. Without annotations, it uses the init containers of the restore's hooks that select the pod.
// Hooks select by the target namespace.
func NewInitHooks(context.Context, *framework.Setup) (riav1.RestoreItemAction, error) {
	return &initHooks{}, nil
}

type initHooks struct{}

func (*initHooks) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedResources: []string{"pods"}}, nil
}

func (*initHooks) Execute(ctx context.Context, input *riav1.ExecuteInput) (*riav1.ExecuteOutput, error) {
	added, err := annotatedContainer(input)
	if err == nil && added == nil {
		added, err = hookContainers(input)
	}
	if err != nil || len(added) == 0 {
		return nil, err
	}
	pod := input.Item.Object
	own, err := field.Objects(pod, "spec", "initContainers")
	if err != nil {
		return nil, err
	}
	var containers []any
	for i, container := range own {
		containers = append(containers, container)
		if name, _ := container["name"].(string); i == 0 && name == waitContainer {
			containers = append(containers, added...)
			added = nil
		}
	}
	spec, err := field.Object(pod, "spec")
	if err != nil {
		return nil, err
	}
	if spec == nil {
		return nil, framework.Errorf("spec is missing, want that of a pod")
	}
	spec["initContainers"] = append(added, containers...)
	framework.Log(ctx).Debug("added the init containers of restore hooks", "namespace",
		input.Restore.Spec.TargetNamespace(input.ItemFromBackup.GetNamespace()), "name", input.Item.GetName())
	return riav1.NewExecuteOutput(input.Item), nil
}

// annotatedContainer returns the init container in the annotations of the pod; nil if they name no image.
func annotatedContainer(input *riav1.ExecuteInput) ([]any, error) {
	annotations, err := field.Object(input.Item.Object, "metadata", "annotations")
	if err != nil {
		return nil, err
	}
	var values [3]string
	for i, key := range []string{initImageAnnotation, initNameAnnotation, initCommandAnnotation} {
		if values[i], err = field.Text(annotations, key); err != nil {
			return nil, fmt.Errorf("metadata.annotations: %w", err)
		}
	}
	image, name, command := values[0], values[1], values[2]
	if image == "" {
		return nil, nil
	}
	if name == "" {
		// The same for each attempt of a restore, so that a repeated one finds the pod unchanged.
		sum := sha256.Sum256([]byte(string(input.Restore.UID) + "/" +
			input.Restore.Spec.TargetNamespace(input.ItemFromBackup.GetNamespace()) + "/" + input.Item.GetName()))
		name = "velero-restore-init-" + hex.EncodeToString(sum[:4])
	}
	container := map[string]any{"name": name, "image": image}
	if command != "" {
		container["command"] = parseCommand(command)
	}
	return []any{container}, nil
}

// parseCommand reads a command in an annotation: a JSON array of strings, or else one word.
func parseCommand(text string) []any {
	var words []string
	if json.Unmarshal([]byte(text), &words) != nil {
		words = []string{text}
	}
	command := make([]any, len(words))
	for i, word := range words {
		command[i] = word
	}
	return command
}

// hookContainers returns the init containers of the restore's hooks that select the pod.
func hookContainers(input *riav1.ExecuteInput) ([]any, error) {
	var containers []any
	for i := range input.Restore.Spec.Hooks.Resources {
		hook := &input.Restore.Spec.Hooks.Resources[i]
		selected, err := selects(hook, input)
		if err != nil {
			return nil, fmt.Errorf("hook %s: %w", hook.Name, err)
		}
		if !selected {
			continue
		}
		for _, post := range hook.PostHooks {
			if post.Init == nil {
				continue
			}
			for n, raw := range post.Init.InitContainers {
				container := map[string]any{}
				if err := utiljson.Unmarshal(raw.Raw, &container); err != nil {
					return nil, framework.Errorf("hook %s: init container %d: %w", hook.Name, n, err)
				}
				containers = append(containers, container)
			}
		}
	}
	return containers, nil
}

// selects reports whether a hook applies to the pod.
func selects(hook *velerov1.RestoreResourceHookSpec, input *riav1.ExecuteInput) (bool, error) {
	namespace := input.Restore.Spec.TargetNamespace(input.ItemFromBackup.GetNamespace())
	matches := func(pattern string) bool {
		matched, err := path.Match(pattern, namespace)
		return pattern == namespace || err == nil && matched
	}
	if len(hook.IncludedNamespaces) > 0 && !slices.ContainsFunc(hook.IncludedNamespaces, matches) ||
		slices.ContainsFunc(hook.ExcludedNamespaces, matches) {
		return false, nil
	}
	if hook.LabelSelector == nil {
		return true, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(hook.LabelSelector)
	if err != nil {
		return false, framework.Errorf("labelSelector: %w", err)
	}
	return selector.Matches(labels.Set(input.Item.GetLabels())), nil
}
