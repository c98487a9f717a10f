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
)

// Labels of the ConfigMaps of journals.
const (
	KindLabel = "cleat.dev/operations" // "backup" or "restore"
	UIDLabel  = "cleat.dev/owner-uid"

	excludeLabel    = "velero.io/exclude-from-backup"
	ownerAnnotation = "cleat.dev/owner" // "NAMESPACE/NAME"
	pagePrefix      = "cleat-operations-"
)

// Journals keeps the journals of all backups and restores in the ConfigMaps of a namespace. It is safe for concurrent use. A nil
// Journals returns nil journals, which record nothing.
type Journals struct {
	client    client.Client
	live      client.Reader
	namespace string
	log       hclog.Logger
}

// NewJournals returns the journals in a namespace. live reads from the API server, not from a cache.
func NewJournals(c client.Client, live client.Reader, namespace string, log hclog.Logger) *Journals {
	return &Journals{client: c, live: live, namespace: namespace, log: log}
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

// Open returns the journal of owner with what former attempts have recorded. Nothing is written before the first record. Requests
// are repeated until ctx ends.
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

// Load returns the journal of a backup or restore that need not exist any more, nil if there is none.
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
		return s.client.DeleteAllOf(ctx, new(corev1.ConfigMap), client.InNamespace(s.namespace), client.HasLabels{KindLabel}, client.MatchingLabels{UIDLabel: string(uid)})
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
		pages: &pages{client: s.client, log: s.log, namespace: s.namespace, attempt: attempt},
	}
}

// read returns the journal with this UID. Its owner is nil if there are no pages.
func (s *Journals) read(ctx context.Context, uid types.UID) (*Journal, error) {
	var list corev1.ConfigMapList
	if err := s.list(ctx, &list, client.HasLabels{KindLabel}, client.MatchingLabels{UIDLabel: string(uid)}); err != nil {
		return nil, err
	}
	j := s.empty()
	var groups []group
	var damaged []error
	for i := range list.Items {
		found, err := j.readPage(&list.Items[i])
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

// readPage takes the owner and the position of the last page, and returns the records.
func (j *Journal) readPage(page *corev1.ConfigMap) ([]group, error) {
	var groups []group
	var damaged []error
	if j.owner == nil {
		owner := ownerOf(page)
		j.owner = &owner
	}
	size := 0
	for key, value := range page.Data {
		size += len(key) + len(value)
		if key == ownerKey {
			if err := j.readOwner(value); err != nil {
				damaged = append(damaged, err)
			}
			continue
		}
		parts := groupKey.FindStringSubmatch(key)
		if parts == nil {
			damaged = append(damaged, fmt.Errorf("data has key %q, want %q or NUMBER-ATTEMPT", key, ownerKey))
			continue
		}
		number, _ := strconv.Atoi(parts[1]) // up to nine digits
		groups = append(groups, group{number: number, attempt: parts[2], lines: []byte(value)})
	}
	n, err := strconv.Atoi(page.Name[strings.LastIndexByte(page.Name, '-')+1:])
	if err != nil || n < 0 {
		damaged = append(damaged, errors.New("its name does not end with a number"))
	} else if n >= j.pages.page {
		j.pages.page, j.pages.exists, j.pages.size = n, true, size
	}
	return groups, errors.Join(damaged...)
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

func (j *Journal) readOwner(content string) error {
	var line ownerLine
	if err := json.Unmarshal([]byte(content), &line); err != nil {
		return fmt.Errorf("owner: %w", err)
	}
	owner := Owner{Kind: line.Kind, Namespace: line.Namespace, Name: line.Name, UID: line.UID, JSON: line.Object}
	want := j.owner
	if owner.Kind != want.Kind || owner.UID != want.UID {
		return fmt.Errorf("owner is %s %s, want %s %s as in the labels", owner.Kind, owner.UID, want.Kind, want.UID)
	}
	j.owner = &owner
	return nil
}

// ownerOf returns the owner that the metadata of a page name, without its JSON.
func ownerOf(page client.Object) Owner {
	owner := Owner{Kind: OfBackup, UID: types.UID(page.GetLabels()[UIDLabel])}
	if page.GetLabels()[KindLabel] == strings.ToLower(OfRestore) {
		owner.Kind = OfRestore
	}
	owner.Namespace, owner.Name, _ = strings.Cut(page.GetAnnotations()[ownerAnnotation], "/")
	return owner
}
