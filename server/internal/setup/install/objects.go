package install

import (
	"cmp"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// Velero's names, by which its clients and dashboards find an installation.
const (
	componentLabel = "component"
	component      = "velero"

	credentialsName = "cloud-credentials"
	credentialsKey  = "cloud"
	defaultLocation = "default"
)

// installationLabel names the namespace of the installation to which an object elsewhere belongs.
const installationLabel = "cleat.dev/installation"

// Objects returns all objects of an installation in the order in which they are applied, definitions first.
func Objects(o *Options) ([]*unstructured.Unstructured, error) {
	objects, err := DefinitionObjects()
	if err != nil {
		return nil, err
	}
	others, err := others(o)
	return append(objects, others...), err
}

// others returns all objects but the definitions.
func others(o *Options) ([]*unstructured.Unstructured, error) {
	typed := []runtime.Object{namespace(o)}
	server, agent := cmp.Or(o.ServiceAccountName, component), ""
	if o.ServiceAccountName == "" {
		typed = append(typed, serviceAccount(o, server))
		typed = append(typed, rbac(o)...)
	}
	if o.NodeAgent != nil {
		if agent = agentAccount(o, server); agent != server {
			typed = append(typed, serviceAccount(o, agent))
			typed = append(typed, agentRBAC(o)...)
		}
	}
	if o.Secret != nil {
		typed = append(typed, secret(o))
	}
	if o.BackupLocation != nil {
		typed = append(typed, backupLocation(o))
	}
	if o.SnapshotLocation != nil {
		typed = append(typed, snapshotLocation(o))
	}
	typed = append(typed, deployment(o, server))
	if o.NodeAgent != nil {
		typed = append(typed, daemonSet(o, agent))
	}
	if o.Console != nil {
		typed = append(typed, consoleService(o), consoleDeployment(o))
	}
	objects := make([]*unstructured.Unstructured, 0, len(typed))
	for _, object := range typed {
		plain, err := unstructuredOf(object)
		if err != nil {
			return nil, err
		}
		objects = append(objects, plain)
	}
	return objects, nil
}

// unstructuredOf returns an object as it is sent: without a status, which the API server owns.
func unstructuredOf(object runtime.Object) (*unstructured.Unstructured, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", object, err)
	}
	delete(fields, "status")
	return &unstructured.Unstructured{Object: fields}, nil
}

// labels returns the labels of every object, with others added.
func labels(others map[string]string) map[string]string {
	all := map[string]string{componentLabel: component}
	maps.Copy(all, others)
	return all
}

// objectMeta returns the metadata of an object in the namespace of the installation.
func objectMeta(o *Options, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: o.Namespace, Name: name, Labels: labels(nil)}
}

// namespace returns the namespace, in which pods that move the data of volumes may be privileged, as in Velero's.
func namespace(o *Options) *corev1.Namespace {
	security := map[string]string{}
	for _, mode := range []string{"enforce", "audit", "warn"} {
		security["pod-security.kubernetes.io/"+mode] = "privileged"
		security["pod-security.kubernetes.io/"+mode+"-version"] = "latest"
	}
	return &corev1.Namespace{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: o.Namespace, Labels: labels(security)},
	}
}

func serviceAccount(o *Options, name string) *corev1.ServiceAccount {
	account := &corev1.ServiceAccount{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
		ObjectMeta: objectMeta(o, name),
	}
	account.Annotations = o.ServiceAccountAnnotations
	return account
}

func secret(o *Options) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: objectMeta(o, credentialsName),
		Type:       corev1.SecretTypeOpaque,
		Data:       map[string][]byte{credentialsKey: o.Secret},
	}
}

func backupLocation(o *Options) *velerov1.BackupStorageLocation {
	l := o.BackupLocation
	return &velerov1.BackupStorageLocation{
		TypeMeta:   metav1.TypeMeta{APIVersion: velerov1.SchemeGroupVersion.String(), Kind: "BackupStorageLocation"},
		ObjectMeta: objectMeta(o, defaultLocation),
		Spec: velerov1.BackupStorageLocationSpec{
			Provider: l.Provider, Config: l.Config, Default: true,
			StorageType: velerov1.StorageType{ObjectStorage: &velerov1.ObjectStorageLocation{Bucket: l.Bucket, Prefix: l.Prefix,
				CACert: l.CACert}},
		},
	}
}

func snapshotLocation(o *Options) *velerov1.VolumeSnapshotLocation {
	l := o.SnapshotLocation
	return &velerov1.VolumeSnapshotLocation{
		TypeMeta:   metav1.TypeMeta{APIVersion: velerov1.SchemeGroupVersion.String(), Kind: "VolumeSnapshotLocation"},
		ObjectMeta: objectMeta(o, defaultLocation),
		Spec:       velerov1.VolumeSnapshotLocationSpec{Provider: l.Provider, Config: l.Config},
	}
}
