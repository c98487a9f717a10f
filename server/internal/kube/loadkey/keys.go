package loadkey

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/loadproof"
	"github.com/cleat-dev/cleat/server/internal/kube/item"
	"github.com/cleat-dev/cleat/server/internal/kube/signing"
)

// purpose is the purpose of the secret from which the keys of runs are derived.
const purpose = "loads"

// Keys are the keys of runs. It is safe for concurrent use. The zero value of the pointer has none, for dry runs.
type Keys struct{ signing *signing.Keys }

// New returns the keys of an installation.
func New(keys *signing.Keys) *Keys { return &Keys{keys} }

// Of returns the key of a Backup or Restore, as kind names it.
func (k *Keys) Of(ctx context.Context, kind string, uid types.UID) (loadproof.Key, error) {
	text, err := text(ctx, k.signing.Get, kind, uid)
	return loadproof.Parse(text), err
}

// Verify returns the result of check for the key of a Backup or Restore. Before it rejects a signature, it makes sure
// that the secret was not replaced meanwhile. The second error means that it could not read the secret.
func (k *Keys) Verify(
	ctx context.Context, kind string, uid types.UID, check func(loadproof.Key) error,
) (wrong, err error) {
	for _, get := range []func(context.Context) (*signing.Key, error){k.signing.Get, k.signing.Again} {
		text, err := text(ctx, get, kind, uid)
		if err != nil {
			return nil, err
		}
		if wrong = check(loadproof.Parse(text)); wrong == nil {
			return nil, nil
		}
	}
	return wrong, nil
}

// Signed reports whether a load was created for a Backup or Restore, as kind names it. Without keys, all loads are.
func (k *Keys) Signed(ctx context.Context, kind string, uid types.UID, load metav1.Object) (bool, error) {
	return k.is(ctx, kind, uid, func(key loadproof.Key) error { return key.Verify(load) })
}

// Written reports whether a node agent has written the status of a load that was created for a Backup or Restore.
// Without keys, it has.
func (k *Keys) Written(ctx context.Context, kind string, uid types.UID, load metav1.Object) (bool, error) {
	return k.is(ctx, kind, uid, func(key loadproof.Key) error { return key.VerifyStatus(load) })
}

func (k *Keys) is(ctx context.Context, kind string, uid types.UID, check func(loadproof.Key) error) (bool, error) {
	if k == nil {
		return true, nil
	}
	wrong, err := k.Verify(ctx, kind, uid, check)
	return wrong == nil && err == nil, err
}

// ForPlugins returns the JSON of a Backup or Restore as plugins get it: with its key. Without keys, it has none, even
// if a client has written one.
func (k *Keys) ForPlugins(ctx context.Context, kind string, uid types.UID, object []byte) ([]byte, error) {
	key := ""
	if k != nil && uid != "" {
		var err error
		if key, err = text(ctx, k.signing.Get, kind, uid); err != nil {
			return nil, err
		}
	}
	if len(object) == 0 { // a damaged journal does not have it
		return object, nil
	}
	annotated, err := item.WithAnnotation(object, velerov1.LoadKeyAnnotation, key)
	for _, annotation := range []string{velerov1.StoredVolumesAnnotation, velerov1.SharedVolumesAnnotation} {
		if err == nil { // only the server sets it, for one item
			annotated, err = item.WithoutAnnotation(annotated, annotation)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("encode %s %s for plugins: %w", kind, uid, err)
	}
	return annotated, nil
}

// text returns the key of a Backup or Restore as text. get reads the key of the installation.
func text(
	ctx context.Context, get func(context.Context) (*signing.Key, error), kind string, uid types.UID,
) (string, error) {
	key, err := get(ctx)
	if err != nil {
		return "", err
	}
	return loadproof.Derive(key.Derive(purpose), kind, string(uid)), nil
}
