package verification

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cleat-dev/cleat/server/internal/bucket/trust"
	"github.com/cleat-dev/cleat/server/internal/spec/config"
)

// keyAge is how old a key may be that is used without another look.
const keyAge = time.Minute

// Keys finds the keys that the configuration names. It is safe for concurrent use.
type Keys struct {
	Live      client.Reader
	Namespace string
	Key       config.KeySource // of this server
	Trusted   []config.TrustedKey
	Now       func() time.Time

	mu     sync.Mutex
	signer *trust.Signer
	read   time.Time
}

// Signs reports whether the server has a key of its own.
func (k *Keys) Signs() bool { return k.Key != config.KeySource{} }

// Signer returns the signer of this server; nil without a key. Its error names the key.
func (k *Keys) Signer(ctx context.Context) (*trust.Signer, error) {
	if !k.Signs() {
		return nil, nil //nolint:nilnil // there is none and that is right
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.signer != nil && k.Now().Sub(k.read) < keyAge {
		return k.signer, nil
	}
	var signer *trust.Signer
	var err error
	if k.Key.KMS != "" {
		signer, err = trust.OpenKMS(ctx, k.Key.KMS)
	} else {
		var text []byte
		if text, err = k.text(ctx, k.Key.Secret, k.Key.File); err == nil {
			signer, err = trust.ParseKey(text)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("the key that signs backups (backups.signing.key, %s): %w", k.Key.Label(), err)
	}
	k.signer, k.read = signer, k.Now()
	return signer, nil
}

// Ring returns the keys whose signatures are accepted: that of this server, and the trusted ones. A key that cannot be
// used has its problem.
func (k *Keys) Ring(ctx context.Context) trust.Ring {
	var ring trust.Ring
	switch signer, err := k.Signer(ctx); {
	case err != nil:
		ring = append(ring, trust.Accepted{Name: "of this server", Own: true, Problem: err})
	case signer != nil:
		ring = append(ring, trust.Accepted{PublicKey: signer.Public, Own: true})
	}
	for _, trusted := range k.Trusted {
		accepted := trust.Accepted{Name: trusted.Name, NotAfter: trusted.Until()}
		text := []byte(trusted.PublicKey)
		if trusted.PublicKey == "" {
			text, accepted.Problem = k.text(ctx, trusted.Secret, trusted.File)
		}
		if accepted.Problem == nil {
			accepted.PublicKey, accepted.Problem = trust.ParsePublicKey(text)
		}
		ring = append(ring, accepted)
	}
	return ring
}

// text returns what a Secret or a file has.
func (k *Keys) text(ctx context.Context, secret, file string) ([]byte, error) {
	if file != "" {
		return os.ReadFile(file)
	}
	name, key, _ := strings.Cut(secret, "/")
	found := new(corev1.Secret)
	err := k.Live.Get(ctx, client.ObjectKey{Namespace: k.Namespace, Name: name}, found)
	switch {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("there is no Secret %s/%s", k.Namespace, name)
	case err != nil:
		return nil, fmt.Errorf("get Secret %s/%s: %w", k.Namespace, name, err)
	case len(found.Data[key]) == 0:
		return nil, fmt.Errorf("the Secret %s/%s has no value for key %q, its keys are %q", k.Namespace, name, key,
			slices.Sorted(maps.Keys(found.Data)))
	}
	return found.Data[key], nil
}
