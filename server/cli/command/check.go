package command

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// CheckExists returns an error, as FlagError, if a flag names an object of the server's namespace that does not exist;
// it reads the object. An empty name is no error. For users who may not read such objects, the server checks.
func (s *Cluster) CheckExists(ctx context.Context, flag, kind, name string, object client.Object) error {
	if name == "" {
		return nil
	}
	switch err := s.Get(ctx, s.Key(name), object); {
	case err == nil, apierrors.IsForbidden(err):
		return nil
	case apierrors.IsNotFound(err):
		return &FlagError{flag, fmt.Errorf("there is no %s %q in namespace %s", kind, name, s.Namespace)}
	default:
		return &FlagError{flag, err}
	}
}

// CheckConfigMap returns an error, as FlagError, if a flag names a ConfigMap that does not exist, or that parse does not
// understand.
func CheckConfigMap[T any](
	ctx context.Context, s *Cluster, flag, name string, parse func(*corev1.ConfigMap) (*T, error),
) error {
	var cm corev1.ConfigMap
	if err := s.CheckExists(ctx, flag, "ConfigMap", name, &cm); err != nil || cm.Name == "" {
		return err
	}
	if _, err := parse(&cm); err != nil {
		return &FlagError{flag, err}
	}
	return nil
}

// CheckNotNegative returns an error, as FlagError, if the value of a flag is negative.
func CheckNotNegative[T ~int | ~int64](flag string, value T) error {
	if value < 0 {
		return &FlagError{flag, fmt.Errorf("%v: want 0 or more", value)}
	}
	return nil
}
