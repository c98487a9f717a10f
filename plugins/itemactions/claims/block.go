package claims

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/cleat-dev/cleat/framework"
	ibav1 "github.com/cleat-dev/cleat/framework/itemblockaction/v1"
	"github.com/cleat-dev/cleat/plugins/itemactions/internal/perrun"
	"github.com/cleat-dev/cleat/plugins/podclaims"
)

// Lists reads what shares volumes in a namespace.
type Lists interface {
	// Pods calls visit for each pod.
	Pods(ctx context.Context, namespace string, visit func(*corev1.Pod)) error
	// ClaimsWith returns the names of the PersistentVolumeClaims that have a label.
	ClaimsWith(ctx context.Context, namespace, label, value string) ([]string, error)
}

// NewBlock returns velero.io/pvc as an ItemBlockAction. It puts into the block of a bound claim its PersistentVolume, the running pods
// that mount it, and the claims of its volume group, which the backup's volumeGroupSnapshotLabelKey names.
func NewBlock(lists Lists) (ibav1.ItemBlockAction, error) {
	return &block{lists: lists}, nil
}

type block struct {
	lists Lists
	kept  perrun.Memo[map[string][]string] // running pods by claim, of a namespace
}

func (*block) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedResources: []string{"persistentvolumeclaims"}}, nil
}

func (b *block) GetRelatedItems(ctx context.Context, input *ibav1.GetRelatedItemsInput) (*ibav1.GetRelatedItemsOutput, error) {
	volume, err := boundVolume(input.Item.Object)
	if err != nil || volume == "" {
		return nil, err
	}
	namespace, name := input.Item.GetNamespace(), input.Item.GetName()
	related := []framework.ResourceIdentifier{{Resource: "persistentvolumes", Name: volume}}
	run := input.Backup.Namespace + "/" + input.Backup.Name + "/" + string(input.Backup.UID)
	mounts, err := b.kept.Get(ctx, run+"/"+namespace, func(ctx context.Context) (map[string][]string, error) { return b.mounts(ctx, namespace) })
	if err != nil {
		return nil, framework.WithStack(fmt.Errorf("which pods mount a claim: %w", err))
	}
	for _, pod := range mounts[name] {
		related = append(related, framework.ResourceIdentifier{Resource: "pods", Namespace: namespace, Name: pod})
	}
	label := input.Backup.Spec.VolumeGroupSnapshotLabelKey
	group := input.Item.GetLabels()[label]
	if group == "" {
		return &ibav1.GetRelatedItemsOutput{RelatedItems: related}, nil
	}
	claims, err := b.lists.ClaimsWith(ctx, namespace, label, group)
	if err != nil {
		return nil, framework.WithStack(fmt.Errorf("which claims are in a volume group: %w", err))
	}
	for _, claim := range claims {
		if claim != name {
			related = append(related, framework.ResourceIdentifier{Resource: "persistentvolumeclaims", Namespace: namespace, Name: claim})
		}
	}
	return &ibav1.GetRelatedItemsOutput{RelatedItems: related}, nil
}

// mounts returns the names of the running pods that mount each claim of a namespace.
func (b *block) mounts(ctx context.Context, namespace string) (map[string][]string, error) {
	found := map[string][]string{}
	err := b.lists.Pods(ctx, namespace, func(pod *corev1.Pod) {
		if pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil {
			return
		}
		for i := range pod.Spec.Volumes {
			if claim := podclaims.Name(pod.Name, &pod.Spec.Volumes[i]); claim != "" && !slices.Contains(found[claim], pod.Name) {
				found[claim] = append(found[claim], pod.Name)
			}
		}
	})
	return found, err
}
