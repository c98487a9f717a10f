package podvolumes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/podclaims"
	"github.com/cleat-dev/cleat/plugins/itemactions/internal/field"
)

const (
	// waitContainer is the init container in which a restored pod waits for its volumes. oldContainer is how Velero called
	// it first.
	waitContainer = "restore-wait"
	oldContainer  = "restic-wait"
	// waitProgram is the program in it, in the images of this server and of Velero.
	waitProgram = "/velero-restore-helper"
	// waitLimit is the variable with the time after which the program gives up. Velero's program ignores it.
	waitLimit = "CLEAT_RESTORE_TIMEOUT"
	// defaultLimit is the timeout of operations of a restore without itemOperationTimeout, and moreTime is how much longer
	// the program waits.
	defaultLimit = 4 * time.Hour
	moreTime     = 10 * time.Minute

	serverDeployment = "velero" // and its container
	helperUser       = 1000
)

// removeWaiting removes what earlier restores have added to a pod, so that it waits. It reports whether there was
// something.
func removeWaiting(pod map[string]any) (bool, error) {
	containers, err := dropNamed(pod, "initContainers", waitContainer, oldContainer)
	if err != nil {
		return false, err
	}
	volume, err := dropNamed(pod, "volumes", podclaims.WaitVolume)
	return containers || volume, err
}

// dropNamed removes elements with some names from a list of a pod's spec. It reports whether there were some.
func dropNamed(pod map[string]any, list string, names ...string) (bool, error) {
	all, err := field.Objects(pod, "spec", list)
	if err != nil {
		return false, err
	}
	var kept []any
	for _, one := range all {
		if name, _ := one["name"].(string); !slices.Contains(names, name) {
			kept = append(kept, one)
		}
	}
	if len(kept) == len(all) {
		return false, nil
	}
	spec, err := field.Object(pod, "spec")
	if err != nil {
		return false, err
	}
	if spec[list] = kept; len(kept) == 0 {
		delete(spec, list)
	}
	return true, nil
}

// addWaiting makes a container the first init container of a pod, and adds the volume in which it learns that the
// others are restored.
func addWaiting(pod map[string]any, container *corev1.Container) error {
	encoded, err := runtime.DefaultUnstructuredConverter.ToUnstructured(container)
	if err != nil {
		return err
	}
	containers, err := field.List(pod, "spec", "initContainers")
	if err != nil {
		return err
	}
	volumes, err := field.List(pod, "spec", "volumes")
	if err != nil {
		return err
	}
	spec, err := field.Object(pod, "spec")
	if err != nil {
		return err
	}
	spec["initContainers"] = append([]any{encoded}, containers...)
	spec["volumes"] = append(volumes[:len(volumes):len(volumes)],
		map[string]any{"name": podclaims.WaitVolume, "emptyDir": map[string]any{}})
	return nil
}

// makeWritable has the kubelet mount volumes writable that a pod uses read-only, because the agent writes their data
// where the kubelet mounts them. The containers of the pod cannot write to them nevertheless.
func makeWritable(pod map[string]any, names []string) error {
	volumes, err := field.Objects(pod, "spec", "volumes")
	if err != nil {
		return err
	}
	changed := map[string]bool{}
	for _, volume := range volumes {
		name, _ := volume["name"].(string)
		if !slices.Contains(names, name) {
			continue
		}
		for _, source := range volume {
			if fields, ok := source.(map[string]any); ok && fields["readOnly"] == true {
				delete(fields, "readOnly")
				changed[name] = true
			}
		}
	}
	if len(changed) == 0 {
		return nil
	}
	for _, list := range []string{"initContainers", "containers"} {
		containers, err := field.Objects(pod, "spec", list)
		if err != nil {
			return err
		}
		for i, container := range containers {
			mounts, err := field.Objects(container, "volumeMounts")
			if err != nil {
				return field.In("spec."+list, i, err)
			}
			for _, mount := range mounts {
				if name, _ := mount["name"].(string); changed[name] {
					mount["readOnly"] = true
				}
			}
		}
	}
	return nil
}

// waitsFor reports whether a pod has the init container of a restore.
func waitsFor(pod *corev1.Pod, r *velerov1.Restore) bool {
	return slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool {
		return c.Name == waitContainer && slices.Contains(c.Args, string(r.UID))
	})
}

// container returns the init container in which a pod waits for some of its volumes. A ConfigMap with Velero's keys can
// change it. The program, which may be Velero's, looks below /restores, where only the agent of this server writes. An
// agent of Velero writes to the volumes, so that the program of this server looks below /restored as well.
func (a *restores) container(
	ctx context.Context, api client.Client, namespace string, r *velerov1.Restore, pod *corev1.Pod, volumes []string,
) (*corev1.Container, error) {
	settings, err := a.deps.Settings(ctx, RestoreName)
	if err != nil {
		return nil, fmt.Errorf("the ConfigMap that configures %s: %w", RestoreName, err)
	}
	image, err := imageFor(ctx, api, namespace, settings["image"])
	if err != nil {
		return nil, err
	}
	resources, err := resourcesFor(ctx, api, settings, pod)
	if err != nil {
		return nil, err
	}
	security, err := securityFor(settings, pod, volumes)
	if err != nil {
		return nil, wrongSetting(err)
	}
	limit := cmp.Or(r.Spec.ItemOperationTimeout.Duration, defaultLimit) + moreTime
	container := &corev1.Container{
		Name: waitContainer, Image: image, Command: []string{cmp.Or(settings["command"], waitProgram)},
		Args: []string{string(r.UID)},
		Env: []corev1.EnvVar{fromField("POD_NAMESPACE", "metadata.namespace"), fromField("POD_NAME", "metadata.name"),
			{Name: waitLimit, Value: limit.String()}},
		Resources: resources, SecurityContext: security,
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}
	container.VolumeMounts = []corev1.VolumeMount{{Name: podclaims.WaitVolume, ReadOnly: true,
		MountPath: "/restores/" + podclaims.WaitVolume}}
	for _, volume := range volumes {
		container.VolumeMounts = append(container.VolumeMounts,
			corev1.VolumeMount{Name: volume, ReadOnly: true, MountPath: "/restored/" + volume})
	}
	return container, nil
}

func fromField(name, path string) corev1.EnvVar {
	return corev1.EnvVar{Name: name,
		ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}
}

func wrongSetting(err error) error {
	return framework.Errorf("the ConfigMap with the labels %s and %s=RestoreItemAction: %w", velerov1.PluginConfigLabel,
		RestoreName, err)
}

// imageFor returns the image of the init container: the image of the settings if it names a registry, as in Velero, or
// the image of the server. An image without a tag gets the server's.
func imageFor(ctx context.Context, api client.Client, namespace, configured string) (string, error) {
	named := strings.Contains(configured, "/")
	if named && strings.ContainsAny(path.Base(configured), ":@") {
		return configured, nil
	}
	var server appsv1.Deployment
	err := api.Get(ctx, client.ObjectKey{Namespace: namespace, Name: serverDeployment}, &server)
	if err != nil && !apierrors.IsNotFound(err) {
		return "", fmt.Errorf("get Deployment %s/%s, for the image of init container %s: %w", namespace, serverDeployment,
			waitContainer, err)
	}
	own := ""
	for i, c := range server.Spec.Template.Spec.Containers {
		if i == 0 || c.Name == serverDeployment {
			own = c.Image
		}
	}
	_, tag, tagged := strings.Cut(path.Base(own), ":")
	switch {
	case named && tagged && !strings.Contains(own, "@"):
		return configured + ":" + tag, nil
	case named:
		return configured, nil
	case own != "":
		return own, nil
	}
	return "", framework.Errorf("it is not known which image init container %s has, because Deployment %s/%s does not "+
		"exist; name one under the key image in a ConfigMap with the labels %s and %s=RestoreItemAction",
		waitContainer, namespace, serverDeployment, velerov1.PluginConfigLabel, RestoreName)
}

// securityFor returns the security context of the init container: the one of the settings, or else of the container
// that uses the volumes, or else one that every namespace admits. It has the user of the container or the pod, whom the
// namespace admits.
func securityFor(settings map[string]string, pod *corev1.Pod, volumes []string) (*corev1.SecurityContext, error) {
	var s corev1.SecurityContext
	var wrong []error
	configured := false
	number := func(key string, to **int64) {
		if text := settings[key]; text != "" {
			id, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				wrong = append(wrong, fmt.Errorf("data.%s: %q is not a number", key, text))
			}
			*to, configured = &id, true
		}
	}
	if text := settings["secCtx"]; text != "" {
		configured = true
		if err := yaml.UnmarshalStrict([]byte(text), &s); err != nil {
			wrong = append(wrong, fmt.Errorf("data.secCtx is not a security context: %w", err))
		}
	}
	number("secCtxRunAsUser", &s.RunAsUser)
	number("secCtxRunAsGroup", &s.RunAsGroup)
	if text := settings["secCtxAllowPrivilegeEscalation"]; text != "" {
		allowed, err := strconv.ParseBool(text)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("data.secCtxAllowPrivilegeEscalation: %q is not true or false", text))
		}
		s.AllowPrivilegeEscalation, configured = &allowed, true
	}
	switch {
	case len(wrong) > 0:
		return nil, errors.Join(wrong...)
	case configured:
		return &s, nil
	}
	ofPod := cmp.Or(pod.Spec.SecurityContext, new(corev1.PodSecurityContext))
	own := &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		SeccompProfile: cmp.Or(ofPod.SeccompProfile, &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}),
	}
	if user := userOf(pod, volumes); user != nil && user.SecurityContext != nil {
		own = user.SecurityContext.DeepCopy()
	}
	own.ReadOnlyRootFilesystem = new(true)
	if own.RunAsUser == nil {
		own.RunAsUser = cmp.Or(ofPod.RunAsUser, new(int64(helperUser)))
	}
	if own.RunAsNonRoot == nil && *own.RunAsUser != 0 {
		own.RunAsNonRoot = new(true)
	}
	return own, nil
}

// userOf returns the first container of a pod that mounts one of the volumes to restore, or else its first container: a
// sidecar that was put before it runs as another user. It is nil for a pod without containers.
func userOf(pod *corev1.Pod, volumes []string) *corev1.Container {
	mounts := func(c corev1.Container) bool {
		return slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool {
			return slices.Contains(volumes, m.Name)
		})
	}
	switch at := slices.IndexFunc(pod.Spec.Containers, mounts); {
	case at >= 0:
		return &pod.Spec.Containers[at]
	case len(pod.Spec.Containers) > 0:
		return &pod.Spec.Containers[0]
	}
	return nil
}
