package takeover

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cleat-dev/cleat/server/internal/setup/install"
)

// Name is the name of the Deployment that runs cleat beside Velero's.
const Name = "cleat"

// serverLabel of the Deployment that runs cleat, and of its pods, is the name of Velero's Deployment.
const serverLabel = "cleat.dev/takes-over"

// deployment returns the Deployment of cleat: a copy of Velero's with another image, and without the flags that cleat
// lacks. Its pods have the labels of Velero's too, so services and network policies find them.
func (t *Takeover) deployment(velero *appsv1.Deployment, replicas int32) (*appsv1.Deployment, error) {
	spec := velero.DeepCopy().Spec
	server, err := install.ServerContainer(&spec.Template.Spec)
	if err != nil {
		return nil, err
	}
	arguments, err := argumentsOf(velero)
	if err != nil {
		return nil, err
	}
	server.Image, server.ImagePullPolicy = t.Image, install.PullPolicy(t.Image)
	server.Command, server.Args = []string{"/velero"}, append([]string{"server"}, t.Arguments(arguments).Kept...)
	spec.Replicas, spec.MinReadySeconds = &replicas, announce(server)
	spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{serverLabel: velero.Name}}
	metav1.SetMetaDataLabel(&spec.Template.ObjectMeta, serverLabel, velero.Name)
	labels := map[string]string(install.ComponentLabels())
	labels[serverLabel] = velero.Name
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Namespace: t.Namespace, Name: Name, Labels: labels},
		Spec:       spec,
	}, nil
}

// argumentsOf returns the arguments after "server" of Velero's server.
func argumentsOf(velero *appsv1.Deployment) ([]string, error) {
	server, err := install.ServerContainer(&velero.Spec.Template.Spec)
	if err != nil {
		return nil, err
	}
	line := slices.Concat(server.Command, server.Args)
	at := slices.Index(line, "server")
	if at < 0 {
		return nil, fmt.Errorf("container %s of Deployment %s runs %q, want \"velero server\" with flags", server.Name,
			velero.Name, strings.Join(line, " "))
	}
	for _, argument := range line[at+1:] {
		if strings.ContainsAny(argument, "\n") {
			return nil, errors.New("an argument of Velero's server has several lines: is the server started by a script?")
		}
	}
	return line[at+1:], nil
}

// isCleat reports whether an image is cleat's.
func isCleat(image string) bool {
	return strings.HasPrefix(image, install.Image+":") || strings.HasPrefix(image, install.Image+"@")
}

// imageOf returns the image of a server, "" if the Deployment has no container of a server.
func imageOf(d *appsv1.Deployment) string {
	server, err := install.ServerContainer(&d.Spec.Template.Spec)
	if err != nil {
		return ""
	}
	return server.Image
}
