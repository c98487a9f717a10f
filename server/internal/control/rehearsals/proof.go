package rehearsals

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cleat-dev/cleat/server/internal/kube/signing"
)

// proofAnnotation of a namespace proves that the server makes it for a rehearsal, and, once its UID is known, that it
// has made this one. Labels only serve to find namespaces: others can write them.
const proofAnnotation = "cleat.dev/rehearsal-proof"

// Proofs prove which namespaces the server has made for rehearsals.
type Proofs struct {
	Keys      *signing.Keys
	Namespace string // of the server
}

// sign returns the proof for the namespace of a name and UID, which is "" before the namespace is made. restore is the
// UID of the rehearsal's Restore.
func (p Proofs) sign(ctx context.Context, restore types.UID, name string, uid types.UID) (string, error) {
	key, err := p.Keys.Get(ctx)
	if err != nil {
		return "", fmt.Errorf("prove that namespace %s is one of a rehearsal: %w", name, err)
	}
	return key.Sign("namespace of a rehearsal", p.parts(restore, name, uid)...), nil
}

func (p Proofs) parts(restore types.UID, name string, uid types.UID) []string {
	return []string{p.Namespace, string(restore), name, string(uid)}
}

// Made reports whether the server has made a namespace for the rehearsal of a Restore.
func (p Proofs) Made(ctx context.Context, restore types.UID, namespace *corev1.Namespace) (bool, error) {
	return p.proves(ctx, restore, namespace, namespace.UID)
}

// begun reports whether the server has made a namespace, and was stopped before it could note the UID. Somebody could
// have copied the proof of a namespace that was deleted, so it counts only if the rehearsal still needs the name.
func (p Proofs) begun(ctx context.Context, restore types.UID, namespace *corev1.Namespace) (bool, error) {
	return p.proves(ctx, restore, namespace, "")
}

func (p Proofs) proves(
	ctx context.Context, restore types.UID, namespace *corev1.Namespace, uid types.UID,
) (bool, error) {
	proof := namespace.Annotations[proofAnnotation]
	if proof == "" {
		return false, nil
	}
	for _, get := range []func(context.Context) (*signing.Key, error){p.Keys.Get, p.Keys.Again} {
		key, err := get(ctx)
		if err != nil {
			return false, fmt.Errorf("verify that namespace %s is one of a rehearsal: %w", namespace.Name, err)
		}
		if key.Proves(proof, "namespace of a rehearsal", p.parts(restore, namespace.Name, uid)...) {
			return true, nil
		}
	}
	return false, nil
}

// note writes the proof that a namespace was made, with its UID.
func (p Proofs) note(ctx context.Context, c client.Client, restore types.UID, namespace *corev1.Namespace) error {
	proof, err := p.sign(ctx, restore, namespace.Name, namespace.UID)
	if err != nil {
		return err
	}
	before := namespace.DeepCopy()
	namespace.Annotations[proofAnnotation] = proof
	err = c.Patch(ctx, namespace, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if err != nil {
		return fmt.Errorf("note that namespace %s was made: %w", namespace.Name, err)
	}
	return nil
}
