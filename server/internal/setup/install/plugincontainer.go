package install

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/rand"

	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// PluginContainer returns the init container that copies the files of a plugin image to the server's plugin directory.
// Its name is unique.
func PluginContainer(image string, pull corev1.PullPolicy, others []corev1.Container) corev1.Container {
	context := confined()
	// an image that runs as root may copy files of others
	context.Capabilities.Add = []corev1.Capability{"CHOWN", "DAC_OVERRIDE", "FOWNER"}
	return corev1.Container{
		Name:            containerName(image, others),
		Image:           image,
		ImagePullPolicy: pull,
		VolumeMounts:    []corev1.VolumeMount{{Name: pluginsVolume, MountPath: "/target"}},
		SecurityContext: context,
	}
}

// AddPlugin adds a plugin image to a Deployment of a server, as Velero's client does.
func AddPlugin(deployment *appsv1.Deployment, image string, pull corev1.PullPolicy) error {
	pod := &deployment.Spec.Template.Spec
	i := slices.IndexFunc(pod.InitContainers, func(c corev1.Container) bool {
		return isImage(c.Image, image) || isImage(image, c.Image)
	})
	if i >= 0 {
		return fmt.Errorf("image %s is there already, as init container %s; to replace it, remove it first", image,
			pod.InitContainers[i].Name)
	}
	server, err := ServerContainer(pod)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == pluginsVolume }) {
		pod.Volumes = append(pod.Volumes, emptyVolume(pluginsVolume))
	}
	if !slices.ContainsFunc(server.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == pluginsVolume }) {
		server.VolumeMounts = append(server.VolumeMounts, pluginsMount())
	}
	pod.InitContainers = append(pod.InitContainers, PluginContainer(image, pull, pod.InitContainers))
	return nil
}

// isImage reports whether an image is the one that is named: with its digest, or without one.
func isImage(image, named string) bool { return image == named || strings.HasPrefix(image, named+"@") }

// RemovePlugin removes the init container whose name or image is given, and returns its image.
func RemovePlugin(deployment *appsv1.Deployment, nameOrImage string) (image string, err error) {
	pod := &deployment.Spec.Template.Spec
	i := slices.IndexFunc(pod.InitContainers, func(c corev1.Container) bool {
		return c.Name == nameOrImage || isImage(c.Image, nameOrImage)
	})
	if i < 0 {
		there := make([]string, 0, len(pod.InitContainers))
		for _, c := range pod.InitContainers {
			there = append(there, c.Name)
		}
		if len(there) == 0 {
			return "", fmt.Errorf("there is no plugin %s: Deployment %s has no init containers", nameOrImage, deployment.Name)
		}
		return "", fmt.Errorf("there is no plugin %s; the init containers of Deployment %s are %s", nameOrImage,
			deployment.Name, strings.Join(there, ", "))
	}
	image = pod.InitContainers[i].Image
	pod.InitContainers = slices.Delete(pod.InitContainers, i, i+1)
	return image, nil
}

// ServerOf returns the Deployment of the server among those with the label of its components.
func ServerOf(deployments []appsv1.Deployment) (*appsv1.Deployment, error) {
	for i := range deployments {
		if _, err := ServerContainer(&deployments[i].Spec.Template.Spec); err == nil {
			return &deployments[i], nil
		}
	}
	return nil, errors.New("no Deployment with the label component=velero has a container velero; name the namespace of " +
		"the server with --namespace")
}

// ServerContainer returns the container of the server.
func ServerContainer(pod *corev1.PodSpec) (*corev1.Container, error) {
	for i := range pod.Containers {
		if pod.Containers[i].Name == component {
			return &pod.Containers[i], nil
		}
	}
	return nil, errors.New("the Deployment has no container velero")
}

// PullPolicy returns when to pull an image: once if it has a tag other than latest or a digest, or else always.
func PullPolicy(image string) corev1.PullPolicy {
	if strings.Contains(image, "@") {
		return corev1.PullIfNotPresent
	}
	_, tag, tagged := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	if tagged && tag != "latest" {
		return corev1.PullIfNotPresent
	}
	return corev1.PullAlways
}

// containerName returns the name of a plugin's init container by Velero's rule: the image without its registry (if more
// than one slash follows), tag and digest, made a name of DNS.
func containerName(image string, others []corev1.Container) string {
	name := image
	if strings.Count(image, "/") > 1 || strings.HasPrefix(image, "/") {
		_, name, _ = strings.Cut(image, "/")
	}
	if at := strings.LastIndex(name, "@"); at > 0 {
		name = name[:at]
		if tag := strings.LastIndex(name, ":"); tag > strings.LastIndex(name, "/") {
			name = name[:tag]
		}
	} else if colon := strings.LastIndex(name, ":"); colon > 0 {
		name = name[:colon]
	}
	name = strings.NewReplacer("/", "-", "_", "-", ".", "-", ":", "-").Replace(name)
	taken := func(name string) bool {
		return slices.ContainsFunc(others, func(c corev1.Container) bool { return c.Name == name })
	}
	const suffix = 5
	unique := velerov1.ValidLabelValue(name)
	for taken(unique) {
		unique = velerov1.ValidLabelValue(strings.TrimRight(name[:min(len(name), 63-suffix-1)], "-") + "-" +
			rand.String(suffix))
	}
	return unique
}

// ComponentLabels selects the objects of an installation, of cleat or of Velero.
func ComponentLabels() client.MatchingLabels { return labels(nil) }
