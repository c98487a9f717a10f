package operation

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/go-hclog"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cleat-dev/cleat/server/internal/kube/signing"
)

// Labels and annotations of the ConfigMaps of journals.
const (
	// KindLabel of the ConfigMap of a journal is the kind of the owner: "backup" or "restore".
	KindLabel = "cleat.dev/operations"
	// UIDLabel of the ConfigMap of a journal is the UID of the Backup or Restore.
	UIDLabel = "cleat.dev/owner-uid"

	excludeLabel = "velero.io/exclude-from-backup"
	// ownerAnnotation of the ConfigMap of a journal is "NAMESPACE/NAME" of the Backup or Restore.
	ownerAnnotation = "cleat.dev/owner"
	pagePrefix      = "cleat-operations-"
)

// Journals stores the journals of all backups and restores in the ConfigMaps of a namespace. It is safe for concurrent
// use. A nil Journals returns nil journals, which record nothing.
type Journals struct {
	client    client.Client
	live      client.Reader
	keys      *signing.Keys
	namespace string
	log       hclog.Logger
}

// NewJournals returns the journals in a namespace. Their records are signed with the key. live reads from the API
// server, not from a cache.
func NewJournals(
	c client.Client, live client.Reader, namespace string, keys *signing.Keys, log hclog.Logger,
) *Journals {
	return &Journals{client: c, live: live, namespace: namespace, keys: keys, log: log}
}

// New returns the journal of an owner that has none yet. Nothing is written before the first record.
func (s *Journals) New(owner *Owner) *Journal {
	if s == nil {
		return nil
	}
	j := s.empty()
	j.owner, j.pages.owner = owner, owner
	return j
}

// Open returns the journal of owner with the records of former attempts. Nothing is written before the first record.
// Requests are repeated until ctx ends.
func (s *Journals) Open(ctx context.Context, owner *Owner) (*Journal, error) {
	if s == nil {
		return nil, nil
	}
	j, err := s.read(ctx, owner.UID)
	if err != nil {
		return nil, err
	}
	j.owner, j.pages.owner = owner, owner
	return j, nil
}

// Load returns the journal of a backup or restore that may no longer exist, or nil if there is none.
func (s *Journals) Load(ctx context.Context, uid types.UID) (*Journal, error) {
	j, err := s.read(ctx, uid)
	if err != nil || j.owner == nil {
		return nil, err
	}
	return j, nil
}

// List returns the backups and restores that have journals, sorted by UID, without their JSON.
func (s *Journals) List(ctx context.Context) ([]Owner, error) {
	var list metav1.PartialObjectMetadataList
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	if err := s.list(ctx, &list, client.HasLabels{KindLabel, UIDLabel}); err != nil {
		return nil, err
	}
	byUID := map[types.UID]Owner{}
	for _, page := range list.Items {
		owner := ownerOf(&page)
		byUID[owner.UID] = owner
	}
	var owners []Owner
	for _, owner := range byUID {
		owners = append(owners, owner)
	}
	slices.SortFunc(owners, func(a, b Owner) int { return cmp.Compare(a.UID, b.UID) })
	return owners, nil
}

// Delete removes the journal of a backup or restore, if there is one.
func (s *Journals) Delete(ctx context.Context, uid types.UID) error {
	err := retry(ctx, s.log, func(ctx context.Context) error {
		return s.client.DeleteAllOf(ctx, new(corev1.ConfigMap), client.InNamespace(s.namespace), client.HasLabels{KindLabel},
			client.MatchingLabels{UIDLabel: string(uid)})
	})
	if err != nil {
		return fmt.Errorf("delete the journal of operations of %s: %w", uid, err)
	}
	return nil
}

func (s *Journals) list(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	err := retry(ctx, s.log, func(ctx context.Context) error {
		return s.live.List(ctx, list, append(options, client.InNamespace(s.namespace))...)
	})
	if err != nil {
		return fmt.Errorf("list journals of operations in namespace %s: %w", s.namespace, err)
	}
	return nil
}

// empty returns a journal without an owner.
func (s *Journals) empty() *Journal {
	attempt := utilrand.String(8)
	return &Journal{
		attempt: attempt, entries: map[entryKey]*entry{}, next: newBatch(), turn: make(chan struct{}, 1),
		pages: &pages{client: s.client, keys: s.keys, log: s.log, namespace: s.namespace, attempt: attempt},
	}
}

// read returns the journal with this UID. Its owner is nil if there are no pages.
func (s *Journals) read(ctx context.Context, uid types.UID) (*Journal, error) {
	var list corev1.ConfigMapList
	if err := s.list(ctx, &list, client.HasLabels{KindLabel}, client.MatchingLabels{UIDLabel: string(uid)}); err != nil {
		return nil, err
	}
	j := s.empty()
	if len(list.Items) == 0 {
		return j, nil
	}
	key, err := s.keys.Get(ctx)
	if err != nil {
		return nil, fmt.Errorf("verify the journal of operations of %s: %w", uid, err)
	}
	var groups []group
	var damaged []error
	for i := range list.Items {
		found, err := j.readPage(&list.Items[i], key)
		if err != nil {
			damaged = append(damaged, fmt.Errorf("ConfigMap %s/%s: %w", s.namespace, list.Items[i].Name, err))
		}
		groups = append(groups, found...)
	}
	for _, g := range groups {
		j.pages.writes = max(j.pages.writes, g.number)
	}
	j.pages.owner = j.owner
	if j.damage = errors.Join(joined(damaged), j.replay(groups)); j.damage != nil {
		s.log.Error("the journal of operations is damaged", "uid", uid, "error", j.damage)
	}
	return j, nil
}

var groupKey = regexp.MustCompile(`^([0-9]{6,9})-([a-z0-9]+)$`)

// errUnproven is the error of records that no server has signed. They are not used, because any client that may write
// ConfigMaps may have made them.
var errUnproven = errors.New("it has no proof that this server has written it")

// readPage sets the owner and the position of the last page, and returns the records that the key proves.
func (j *Journal) readPage(page *corev1.ConfigMap, key *signing.Key) ([]group, error) {
	var groups []group
	var damaged []error
	of, proven := ownerOf(page), false
	size := 0
	var object []byte
	for name, value := range page.Data {
		size += len(name) + len(value)
		content, ok := verified(key, &of, name, value)
		parts := groupKey.FindStringSubmatch(name)
		switch {
		case name != ownerKey && parts == nil:
			damaged = append(damaged, fmt.Errorf("data has key %q, want %q or NUMBER-ATTEMPT", name, ownerKey))
			continue
		case !ok:
			damaged = append(damaged, fmt.Errorf("data.%s: %w", name, errUnproven))
			continue
		}
		proven = true
		if name == ownerKey {
			raw, err := of.read(content)
			if err != nil {
				damaged = append(damaged, err)
			}
			object = raw
			continue
		}
		number, _ := strconv.Atoi(parts[1]) // up to nine digits
		groups = append(groups, group{number: number, attempt: parts[2], lines: []byte(content)})
	}
	if !proven {
		return nil, errors.Join(damaged...)
	}
	if j.owner == nil || object != nil {
		of.JSON = object
		j.owner = &of
	}
	n, err := strconv.Atoi(page.Name[strings.LastIndexByte(page.Name, '-')+1:])
	if err != nil || n < 0 {
		damaged = append(damaged, errors.New("its name does not end with a number"))
	} else if n >= j.pages.page {
		j.pages.page, j.pages.exists, j.pages.size = n, true, size
	}
	return groups, errors.Join(damaged...)
}

// sealed returns the value of a key of a page: the content, and a last line that proves that this server has written
// it for the owner.
func sealed(key *signing.Key, owner *Owner, name, content string) string {
	return content + proofPrefix + key.Sign("journal", owner.Kind, owner.Namespace, owner.Name, string(owner.UID), name,
		content)
}

// proofPrefix begins the last line of a value. No record begins with it, because records are JSON.
const proofPrefix = "\nproof "

// verified returns the content of a value that sealed has returned.
func verified(key *signing.Key, owner *Owner, name, value string) (content string, ok bool) {
	at := strings.LastIndex(value, proofPrefix)
	if at < 0 {
		return "", false
	}
	content = value[:at]
	return content, key.Proves(value[at+len(proofPrefix):], "journal", owner.Kind, owner.Namespace, owner.Name,
		string(owner.UID), name, content)
}

// ownerLine is the JSON of an owner.
type ownerLine struct {
	Kind      string          `json:"kind"`
	Namespace string          `json:"namespace"`
	Name      string          `json:"name"`
	UID       types.UID       `json:"uid"`
	Object    json.RawMessage `json:"object"`
}

func encodeOwner(o *Owner) (string, error) {
	line, err := json.Marshal(ownerLine{Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, UID: o.UID, Object: o.JSON})
	if err != nil {
		return "", fmt.Errorf("encode the owner of operations: %w", err)
	}
	return string(line), nil
}

// read returns the JSON of the owner that the content of ownerKey describes.
func (o *Owner) read(content string) (json.RawMessage, error) {
	var line ownerLine
	if err := json.Unmarshal([]byte(content), &line); err != nil {
		return nil, fmt.Errorf("owner: %w", err)
	}
	if line.Kind != o.Kind || line.UID != o.UID {
		return nil, fmt.Errorf("owner is %s %s, want %s %s as in the labels", line.Kind, line.UID, o.Kind, o.UID)
	}
	return line.Object, nil
}

// ownerOf returns the owner in the metadata of a page, without its JSON.
func ownerOf(page client.Object) Owner {
	owner := Owner{Kind: OfBackup, UID: types.UID(page.GetLabels()[UIDLabel])}
	if page.GetLabels()[KindLabel] == strings.ToLower(OfRestore) {
		owner.Kind = OfRestore
	}
	owner.Namespace, owner.Name, _ = strings.Cut(page.GetAnnotations()[ownerAnnotation], "/")
	return owner
}
