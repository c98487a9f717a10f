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
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// secretAge is how old the content of a Secret may be. Who deletes many backups opens their location for each.
const secretAge = time.Second

// secrets reads Secrets, each at most once in secretAge for a location that does not change. A location that has
// changed has its Secrets read anew: who rotates a key may write the Secret first, and in the same second the location
// that needs it. It is safe for concurrent use.
type secrets struct {
	reader client.Reader

	mu     sync.Mutex
	recent map[readBy]recentSecret
}

// readBy tells a Secret and the state of the location that names it.
type readBy struct {
	secret     client.ObjectKey
	location   types.UID
	generation int64
}

type recentSecret struct {
	data map[string][]byte
	read time.Time
}

// value returns the value that a location, or a VolumeSnapshotLocation, selects.
func (s *secrets) value(
	ctx context.Context, location client.Object, selector *velerov1.SecretKeySelector,
) ([]byte, error) {
	if selector.Name == "" || selector.Key == "" {
		return nil, fmt.Errorf("want the name of a Secret and a key in it, got name %q and key %q", selector.Name,
			selector.Key)
	}
	namespace := location.GetNamespace()
	data, err := s.data(ctx, readBy{client.ObjectKey{Namespace: namespace, Name: selector.Name}, location.GetUID(),
		location.GetGeneration()})
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

func (s *secrets) data(ctx context.Context, key readBy) (map[string][]byte, error) {
	began := time.Now()
	s.mu.Lock()
	known, ok := s.recent[key]
	s.mu.Unlock()
	if ok && began.Sub(known.read) < secretAge {
		return known.data, nil
	}
	var secret corev1.Secret
	if err := s.reader.Get(ctx, key.secret, &secret); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.recent, func(_ readBy, r recentSecret) bool { return began.Sub(r.read) >= secretAge })
	if s.recent == nil {
		s.recent = map[readBy]recentSecret{}
	}
	s.recent[key] = recentSecret{data: secret.Data, read: began}
	return secret.Data, nil
}
