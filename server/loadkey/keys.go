package loadkey

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/loadproof"
	"github.com/cleat-dev/cleat/server/item"
)

const (
	// Name is the name of the Secret.
	Name = "cleat-load-key"
	// dataKey is the key of the secret in the Secret.
	dataKey = "key"
	size    = 32 // bytes of the secret
	// maxAge is how old the secret may be that is used without another look. After a signature that does not fit, it is minAge.
	maxAge = time.Minute
	minAge = 5 * time.Second
)

// Keys are the keys of runs. It is safe for concurrent use. The zero value of the pointer has none, for dry runs.
type Keys struct {
	reader    client.Reader
	writer    client.Writer // nil for agents
	namespace string
	now       func() time.Time

	mu     sync.Mutex
	master []byte
	read   time.Time
}

// New returns the keys of the server's namespace. With a writer, the Secret is created if it does not exist.
func New(reader client.Reader, writer client.Writer, namespace string, now func() time.Time) *Keys {
	return &Keys{reader: reader, writer: writer, namespace: namespace, now: now}
}

// Of returns the key of a Backup or Restore, as kind names it.
func (k *Keys) Of(ctx context.Context, kind string, uid types.UID) (loadproof.Key, error) {
	text, err := k.text(ctx, kind, uid, maxAge)
	return loadproof.Parse(text), err
}

// Verify returns what check says of the key of a Backup or Restore. Before it says that a signature does not fit, it makes sure that the
// secret was not replaced meanwhile. The second error says that this could not be found out.
func (k *Keys) Verify(ctx context.Context, kind string, uid types.UID, check func(loadproof.Key) error) (wrong, err error) {
	for _, age := range []time.Duration{maxAge, minAge} {
		text, err := k.text(ctx, kind, uid, age)
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

// Written reports whether a node agent has written the status of a load that was created for a Backup or Restore. Without keys, it has.
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

// ForPlugins returns the JSON of a Backup or Restore as plugins get it: with its key. Without keys, it has none, whoever has written one.
func (k *Keys) ForPlugins(ctx context.Context, kind string, uid types.UID, object []byte) ([]byte, error) {
	text := ""
	if k != nil && uid != "" {
		var err error
		if text, err = k.text(ctx, kind, uid, maxAge); err != nil {
			return nil, err
		}
	}
	if len(object) == 0 { // a damaged journal does not have it
		return object, nil
	}
	annotated, err := item.WithAnnotation(object, velerov1.LoadKeyAnnotation, text)
	if err == nil { // only the server says that, for one item
		annotated, err = item.WithoutAnnotation(annotated, velerov1.StoredVolumesAnnotation)
	}
	if err != nil {
		return nil, fmt.Errorf("encode %s %s for plugins: %w", kind, uid, err)
	}
	return annotated, nil
}

func (k *Keys) text(ctx context.Context, kind string, uid types.UID, age time.Duration) (string, error) {
	master, err := k.secret(ctx, age)
	if err != nil {
		return "", err
	}
	return loadproof.Derive(master, kind, string(uid)), nil
}

// secret returns the secret, which was read no longer ago than age.
func (k *Keys) secret(ctx context.Context, age time.Duration) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.master != nil && k.now().Sub(k.read) < age {
		return k.master, nil
	}
	master, err := k.look(ctx)
	if err != nil {
		return nil, err
	}
	k.master, k.read = master, k.now()
	return master, nil
}

// look reads the secret. With a writer, look creates it if it does not exist; of several that do so, one succeeds.
func (k *Keys) look(ctx context.Context) ([]byte, error) {
	found := new(corev1.Secret)
	err := k.reader.Get(ctx, client.ObjectKey{Namespace: k.namespace, Name: Name}, found)
	if apierrors.IsNotFound(err) && k.writer == nil {
		return nil, fmt.Errorf("Secret %s/%s does not exist yet; the server creates it when it starts", k.namespace, Name)
	}
	if apierrors.IsNotFound(err) {
		secret := make([]byte, size)
		_, _ = rand.Read(secret) // never fails
		found = &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: k.namespace, Name: Name, Labels: map[string]string{velerov1.ExcludeFromBackupLabel: "true"}},
			Data:       map[string][]byte{dataKey: secret},
		}
		if err = k.writer.Create(ctx, found); apierrors.IsAlreadyExists(err) {
			err = k.reader.Get(ctx, client.ObjectKeyFromObject(found), found)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("Secret %s/%s with the key of loads: %w", k.namespace, Name, err)
	}
	if secret := found.Data[dataKey]; len(secret) == size {
		return secret, nil
	}
	return nil, fmt.Errorf("Secret %s/%s: data.%s has %d bytes, want %d; delete the Secret, then the server makes another", k.namespace, Name, dataKey, len(found.Data[dataKey]), size)
}
