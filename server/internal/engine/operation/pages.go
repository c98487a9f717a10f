package operation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
	"github.com/cleat-dev/cleat/server/internal/kube/signing"
)

const (
	// pageSize is the size at which a journal continues in another ConfigMap. Every write rewrites the whole ConfigMap
	// in etcd.
	pageSize = 128 << 10
	// writeSize is the maximum size of the records of one write, unless it has only one record.
	writeSize = 64 << 10
	// attemptTimeout bounds one request, whose connection may be broken.
	attemptTimeout = 30 * time.Second
)

// ownerKey is the key of the owner in the first page. The keys of records are "NUMBER-ATTEMPT".
const ownerKey = "owner"

// pages holds the ConfigMaps of one journal. It is not safe for concurrent use.
type pages struct {
	client    client.Client
	keys      *signing.Keys
	log       hclog.Logger
	namespace string
	owner     *Owner
	attempt   string

	page   int  // the last one
	exists bool // the page
	size   int  // of its data
	writes int  // the number of the last one
}

// write makes lines durable. After an error some of them may be durable.
func (p *pages) write(ctx context.Context, lines []line) error {
	var content []byte
	for _, l := range lines {
		if len(content) > 0 && len(content)+len(l.json) > writeSize {
			if err := p.add(ctx, string(content)); err != nil {
				return err
			}
			content = content[:0]
		}
		content = append(content, l.json...)
	}
	if len(content) == 0 {
		return nil
	}
	return p.add(ctx, string(content))
}

// add makes one write, which is repeated until it succeeds, fails permanently, or ctx ends. A repeated write adds
// nothing the second time, because its key is the same.
func (p *pages) add(ctx context.Context, lines string) error {
	if p.exists && p.size+len(lines) > pageSize {
		p.page, p.exists, p.size = p.page+1, false, 0
	}
	p.writes++
	signer, err := p.keys.Get(ctx)
	if err != nil {
		return fmt.Errorf("sign records of operations: %w", err)
	}
	key := fmt.Sprintf("%06d-%s", p.writes, p.attempt)
	lines = sealed(signer, p.owner, key, lines)
	patch, err := json.Marshal(map[string]any{"data": map[string]string{key: lines}})
	if err != nil {
		return err
	}
	name := p.name()
	err = retry(ctx, p.log.With("configMap", name), func(ctx context.Context) error {
		if !p.exists {
			return p.create(ctx, signer, key, lines)
		}
		// The reply has only the metadata, because the content is not needed.
		page := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: name}}
		page.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
		err := p.client.Patch(ctx, page, client.RawPatch(types.MergePatchType, patch))
		if apierrors.IsNotFound(err) {
			p.exists = false
			return errRace
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("write ConfigMap %s/%s: %w", p.namespace, name, err)
	}
	p.size += len(key) + len(lines)
	return nil
}

// create creates the page with one write. The first page has the owner.
func (p *pages) create(ctx context.Context, signer *signing.Key, key, lines string) error {
	kind := strings.ToLower(p.owner.Kind)
	page := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.namespace, Name: p.name(),
			Labels:      map[string]string{KindLabel: kind, UIDLabel: string(p.owner.UID), excludeLabel: "true"},
			Annotations: map[string]string{ownerAnnotation: p.owner.Namespace + "/" + p.owner.Name},
		},
		Data: map[string]string{key: lines},
	}
	if p.page == 0 {
		owner, err := encodeOwner(p.owner)
		if err != nil {
			return err
		}
		page.Data[ownerKey] = sealed(signer, p.owner, ownerKey, owner)
		p.size = len(page.Data[ownerKey])
	}
	err := p.client.Create(ctx, page)
	p.exists = err == nil || apierrors.IsAlreadyExists(err)
	if apierrors.IsAlreadyExists(err) { // by a request whose reply was lost, or by another attempt
		return errRace
	}
	return err
}

func (p *pages) name() string {
	return fmt.Sprintf("%s%s-%s-%d", pagePrefix, strings.ToLower(p.owner.Kind), p.owner.UID, p.page)
}

// errRace means that the object changed between two requests.
var errRace = errors.New("the object was created or deleted meanwhile")

// retry repeats a request until it succeeds, fails permanently, or ctx ends.
func retry(ctx context.Context, log hclog.Logger, request func(context.Context) error) error {
	backoff := kubeapi.Backoff()
	for attempt := 1; ; attempt++ {
		limited, cancel := context.WithTimeout(ctx, attemptTimeout)
		err := request(limited)
		overdue := limited.Err() != nil && ctx.Err() == nil
		cancel()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("gave up, %w, after: %w", context.Cause(ctx), err)
		case errors.Is(err, errRace) && attempt == 1:
			continue
		case !overdue && !kubeapi.Transient(err) && !apierrors.IsConflict(err):
			return err
		}
		if attempt == 1 {
			log.Warn("the journal of operations could not be written or read, trying again", "error", err)
		}
		if err := kubeapi.Pause(ctx, backoff, err); err != nil {
			return err
		}
	}
}
