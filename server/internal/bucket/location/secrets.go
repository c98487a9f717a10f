package location

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// secretAge is how old the content of a Secret may be. Who deletes many backups opens their location for each.
const secretAge = time.Second

// secrets reads Secrets, each at most once in secretAge. It is safe for concurrent use.
type secrets struct {
	reader client.Reader

	mu     sync.Mutex
	recent map[client.ObjectKey]recentSecret
}

type recentSecret struct {
	data map[string][]byte
	read time.Time
}

func (s *secrets) value(ctx context.Context, namespace string, selector *velerov1.SecretKeySelector) ([]byte, error) {
	if selector.Name == "" || selector.Key == "" {
		return nil, fmt.Errorf("want the name of a Secret and a key in it, got name %q and key %q", selector.Name,
			selector.Key)
	}
	data, err := s.data(ctx, client.ObjectKey{Namespace: namespace, Name: selector.Name})
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("there is no Secret %s/%s", namespace, selector.Name)
	}
	if err != nil {
		return nil, fmt.Errorf("get Secret %s/%s: %w", namespace, selector.Name, err)
	}
	content := data[selector.Key]
	if len(content) == 0 {
		return nil, fmt.Errorf("the Secret %s/%s has no value for key %q, its keys are %q",
			namespace, selector.Name, selector.Key, slices.Sorted(maps.Keys(data)))
	}
	return content, nil
}

func (s *secrets) data(ctx context.Context, key client.ObjectKey) (map[string][]byte, error) {
	began := time.Now()
	s.mu.Lock()
	known, ok := s.recent[key]
	s.mu.Unlock()
	if ok && began.Sub(known.read) < secretAge {
		return known.data, nil
	}
	var secret corev1.Secret
	if err := s.reader.Get(ctx, key, &secret); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.recent, func(_ client.ObjectKey, r recentSecret) bool { return began.Sub(r.read) >= secretAge })
	if s.recent == nil {
		s.recent = map[client.ObjectKey]recentSecret{}
	}
	s.recent[key] = recentSecret{data: secret.Data, read: began}
	return secret.Data, nil
}
