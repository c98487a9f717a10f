package repopassword

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// The Secret with the password of all repositories, and the value that Velero writes into it if there is none.
const (
	SecretName = "velero-repo-credentials"
	SecretKey  = "repository-password"
	Public     = "static-passw0rd"
)

// IsPublic reports whether a password is Velero's public one.
func IsPublic(password []byte) bool { return bytes.Equal(password, []byte(Public)) }

// Warning is the warning about the public password.
const Warning = "the repositories of volumes have the password that every Velero has, which is public: whoever reads " +
	"the bucket reads the volumes, " +
	"and whoever writes it can replace them; see \"Password of repositories\" in server/docs/node-agents.md for how to " +
	"change it"

// Read returns the password in a namespace, nil if there is no Secret. live reads from the API server, not from a
// cache.
func Read(ctx context.Context, live client.Reader, namespace string) ([]byte, error) {
	var secret corev1.Secret
	err := live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: SecretName}, &secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get Secret %s with the password of repositories: %w", SecretName, err)
	case len(secret.Data[SecretKey]) == 0:
		return nil, fmt.Errorf("secret %s/%s has no key %s with the password of repositories", namespace, SecretName,
			SecretKey)
	}
	return secret.Data[SecretKey], nil
}

// Ensure returns the password in a namespace, and whether it has created the Secret. A Secret that exists is never
// changed. A new installation gets a password of its own; one with repositories but no Secret has made them with the
// public one.
func Ensure(
	ctx context.Context, c client.Client, live client.Reader, namespace string,
) (password []byte, created bool, err error) {
	if password, err = Read(ctx, live, namespace); password != nil || err != nil {
		return password, false, err
	}
	password = []byte(rand.Text())
	switch some, err := hasRepositories(ctx, live, namespace); {
	case err != nil:
		return nil, false, err
	case some:
		password = []byte(Public)
	}
	err = c.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: SecretName,
			Labels: map[string]string{"component": "velero"}},
		Type: corev1.SecretTypeOpaque, Data: map[string][]byte{SecretKey: password},
	})
	if apierrors.IsAlreadyExists(err) {
		password, err = Read(ctx, live, namespace)
		return password, false, err
	}
	if err != nil {
		return nil, false, fmt.Errorf("create Secret %s with the password of repositories: %w", SecretName, err)
	}
	return password, true, nil
}

func hasRepositories(ctx context.Context, live client.Reader, namespace string) (bool, error) {
	var list velerov1.BackupRepositoryList
	err := live.List(ctx, &list, client.InNamespace(namespace), client.Limit(1))
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) { // the definition has just been installed
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("list the repositories of the installation: %w", err)
	}
	return len(list.Items) > 0, nil
}

// PublicIn returns whether the repositories in a backup storage location have the public password: there are some, and
// the Secret has it or does not exist. An empty location stands for all.
func PublicIn(ctx context.Context, live client.Reader, namespace, location string) (bool, error) {
	password, err := Read(ctx, live, namespace)
	if err != nil || password != nil && !IsPublic(password) {
		return false, err
	}
	var list velerov1.BackupRepositoryList
	if err := live.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return false, fmt.Errorf("list the repositories of the installation: %w", err)
	}
	for i := range list.Items {
		if location == "" || list.Items[i].Spec.BackupStorageLocation == location {
			return true, nil
		}
	}
	return location == "" && password != nil, nil // the password of future repositories
}
