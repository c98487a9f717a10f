// Package signing proves that a server or an agent of an installation has written an object in the cluster: with a key
// in a Secret of its namespace. Users who may write custom resources and ConfigMaps, but not read Secrets, cannot make
// such a proof.
//
// The package imports the client of controller-runtime only. Start reading at Open.
package signing

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// SecretName is the name of the Secret with the key of an installation.
const SecretName = "cleat-signing-key"

const (
	dataKey = "key"
	keySize = 32
)

// Key signs texts. It is safe for concurrent use.
type Key struct{ secret []byte }

// NewKey returns the key of a secret, which must not be known to others.
func NewKey(secret []byte) *Key { return &Key{secret} }

// Sign returns the proof that the holder of the key has made parts for a purpose. No other purpose or parts, also none
// that are split differently, have the same.
func (k *Key) Sign(purpose string, parts ...string) string {
	return base64.RawURLEncoding.EncodeToString(k.sum(purpose, parts))
}

// Proves reports whether a proof belongs to the parts.
func (k *Key) Proves(proof, purpose string, parts ...string) bool {
	sum, err := base64.RawURLEncoding.DecodeString(proof)
	return err == nil && hmac.Equal(sum, k.sum(purpose, parts))
}

// Derive returns a key for a purpose. This key cannot be computed from it.
func (k *Key) Derive(purpose string) []byte { return k.sum("derive", []string{purpose}) }

func (k *Key) sum(purpose string, parts []string) []byte {
	mac := hmac.New(sha256.New, k.secret)
	for _, part := range append([]string{purpose}, parts...) {
		mac.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		mac.Write([]byte(part))
	}
	return mac.Sum(nil)
}

// How old a key may be that is used without another look at the Secret.
const (
	maxAge = time.Minute
	minAge = 5 * time.Second // after a proof that does not fit
)

// Keys reads the key of an installation. It is safe for concurrent use.
type Keys struct {
	live      client.Reader
	writer    client.Writer // nil if another process makes the key
	namespace string
	now       func() time.Time

	mu    sync.Mutex
	key   *Key
	read  time.Time
	fixed bool
}

// Open returns the key in the Secret of a namespace. Unless writer is nil, the key is made if there is none. live reads
// from the API server. If the Secret is deleted, the key is replaced, and earlier signatures are not valid any more.
func Open(live client.Reader, writer client.Writer, namespace string, now func() time.Time) *Keys {
	return &Keys{live: live, writer: writer, namespace: namespace, now: now}
}

// Fixed returns keys that are always this one.
func Fixed(key *Key) *Keys { return &Keys{key: key, fixed: true} }

// Get returns the key. All processes get the same: of two that make it at once, one has it from the other.
func (s *Keys) Get(ctx context.Context) (*Key, error) { return s.get(ctx, maxAge) }

// Again returns the key for another look at a proof that does not fit, because the key may have been replaced.
func (s *Keys) Again(ctx context.Context) (*Key, error) { return s.get(ctx, minAge) }

func (s *Keys) get(ctx context.Context, age time.Duration) (*Key, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.key != nil && (s.fixed || s.now().Sub(s.read) < age) {
		return s.key, nil
	}
	secret, err := s.look(ctx)
	if err != nil {
		return nil, err
	}
	s.key, s.read = NewKey(secret), s.now()
	return s.key, nil
}

// look reads the secret. With a writer, it is made if there is none.
func (s *Keys) look(ctx context.Context) ([]byte, error) {
	at := client.ObjectKey{Namespace: s.namespace, Name: SecretName}
	found := new(corev1.Secret)
	err := s.live.Get(ctx, at, found)
	switch {
	case apierrors.IsNotFound(err) && s.writer == nil:
		return nil, fmt.Errorf("the Secret %s does not exist yet; the server creates it when it starts", at)
	case apierrors.IsNotFound(err):
		found = &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: at.Namespace, Name: at.Name,
				Labels: map[string]string{"velero.io/exclude-from-backup": "true"}},
			Data: map[string][]byte{dataKey: newSecret()}, Immutable: new(true),
		}
		if err = s.writer.Create(ctx, found); apierrors.IsAlreadyExists(err) {
			found = new(corev1.Secret)
			err = s.live.Get(ctx, at, found)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("get the key in Secret %s: %w", at, err)
	}
	if secret := found.Data[dataKey]; len(secret) >= keySize {
		return secret, nil
	}
	return nil, fmt.Errorf("secret %s: data.%s has %d bytes, want %d random ones; delete the Secret, then the server "+
		"makes another",
		at, dataKey, len(found.Data[dataKey]), keySize)
}

func newSecret() []byte {
	secret := make([]byte, keySize)
	_, _ = rand.Read(secret) // never fails
	return secret
}
