// Package signing proves that a server, or an agent, of an installation has made what it finds in the cluster: with a key in a Secret of its
// namespace. Whoever may write custom resources and ConfigMaps, but read no Secrets, cannot make such a proof.
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

// Sign returns the proof that the holder of the key has made parts for a purpose. No other purpose or parts, also none that are split
// differently, have the same.
func (k *Key) Sign(purpose string, parts ...string) string {
	return base64.RawURLEncoding.EncodeToString(k.sum(purpose, parts))
}

// Proves reports whether a proof is that of the parts.
func (k *Key) Proves(proof, purpose string, parts ...string) bool {
	sum, err := base64.RawURLEncoding.DecodeString(proof)
	return err == nil && hmac.Equal(sum, k.sum(purpose, parts))
}

func (k *Key) sum(purpose string, parts []string) []byte {
	mac := hmac.New(sha256.New, k.secret)
	for _, part := range append([]string{purpose}, parts...) {
		mac.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		mac.Write([]byte(part))
	}
	return mac.Sum(nil)
}

// Keys reads the key of an installation when it is needed first. It is safe for concurrent use.
type Keys struct {
	live      client.Reader
	writer    client.Writer // nil if another process makes the key
	namespace string
	name      string

	mu  sync.Mutex
	key *Key
}

// Open returns the key in a Secret of a namespace. Unless writer is nil, the key is made if there is none. live reads from the API server.
func Open(live client.Reader, writer client.Writer, namespace, name string) *Keys {
	return &Keys{live: live, writer: writer, namespace: namespace, name: name}
}

// Fixed returns keys that are always this one.
func Fixed(key *Key) *Keys { return &Keys{key: key} }

// Get returns the key. All processes get the same: of two that make it at once, one has it from the other.
func (s *Keys) Get(ctx context.Context) (*Key, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.key != nil {
		return s.key, nil
	}
	secret := new(corev1.Secret)
	at := client.ObjectKey{Namespace: s.namespace, Name: s.name}
	err := s.live.Get(ctx, at, secret)
	if apierrors.IsNotFound(err) && s.writer != nil {
		secret = &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: at.Namespace, Name: at.Name, Labels: map[string]string{"velero.io/exclude-from-backup": "true"}},
			Data:       map[string][]byte{dataKey: newSecret()}, Immutable: new(true),
		}
		if err = s.writer.Create(ctx, secret); apierrors.IsAlreadyExists(err) {
			secret = new(corev1.Secret)
			err = s.live.Get(ctx, at, secret)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("get the key in Secret %s: %w", at, err)
	}
	if len(secret.Data[dataKey]) < keySize {
		return nil, fmt.Errorf("secret %s: data.%s has %d bytes, want %d random ones; delete the Secret, and another is made", at, dataKey, len(secret.Data[dataKey]), keySize)
	}
	s.key = NewKey(secret.Data[dataKey])
	return s.key, nil
}

func newSecret() []byte {
	secret := make([]byte, keySize)
	_, _ = rand.Read(secret) // never fails
	return secret
}
