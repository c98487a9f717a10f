package claims

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	ibav1 "github.com/cleat-dev/cleat/framework/itemblockaction/v1"
	"github.com/cleat-dev/cleat/framework/podclaims"
	"github.com/cleat-dev/cleat/plugins/itemactions/internal/perrun"
)

// Lists reads what shares volumes in a namespace.
type Lists interface {
	// Pods calls visit for each pod.
	Pods(ctx context.Context, namespace string, visit func(*corev1.Pod)) error
	// ClaimsWith returns the names of the PersistentVolumeClaims that have a label.
	ClaimsWith(ctx context.Context, namespace, label, value string) ([]string, error)
}

// NewBlock returns velero.io/pvc as an ItemBlockAction. It puts into the block of a bound claim its PersistentVolume,
// the running pods that mount it, and the claims of its volume group, which the backup's volumeGroupSnapshotLabelKey
// names. A pod that the label selectors of the backup do not select only shares the claim: it is not related.
func NewBlock(lists Lists) (ibav1.ItemBlockAction, error) {
	return &block{lists: lists}, nil
}

type block struct {
	lists Lists
	kept  perrun.Memo[map[string][]string] // selected running pods by claim, of a namespace
}

func (*block) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedResources: []string{"persistentvolumeclaims"}}, nil
}

func (b *block) GetRelatedItems(
	ctx context.Context, input *ibav1.GetRelatedItemsInput,
) (*ibav1.GetRelatedItemsOutput, error) {
	volume, err := boundVolume(input.Item.Object)
	if err != nil || volume == "" {
		return nil, err
	}
	namespace, name := input.Item.GetNamespace(), input.Item.GetName()
	related := []framework.ResourceIdentifier{{Resource: "persistentvolumes", Name: volume}}
	run := input.Backup.Namespace + "/" + input.Backup.Name + "/" + string(input.Backup.UID)
	mounts, err := b.kept.Get(ctx, run+"/"+namespace, func(ctx context.Context) (map[string][]string, error) {
		return b.mounts(ctx, namespace, &input.Backup.Spec)
	})
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
			related = append(related, framework.ResourceIdentifier{Resource: "persistentvolumeclaims", Namespace: namespace,
				Name: claim})
		}
	}
	return &ibav1.GetRelatedItemsOutput{RelatedItems: related}, nil
}

// mounts returns the names of the running pods that mount each claim of a namespace, of the pods that the label
// selectors of a backup select.
func (b *block) mounts(ctx context.Context, namespace string, spec *velerov1.BackupSpec) (map[string][]string, error) {
	selects, err := selectsLabels(spec)
	if err != nil {
		return nil, err
	}
	found := map[string][]string{}
	err = b.lists.Pods(ctx, namespace, func(pod *corev1.Pod) {
		if pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil || !selects(pod.Labels) {
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

// selectsLabels returns a function that reports whether a label selector of a backup selects an object with some
// labels. All objects are selected if there is no selector.
func selectsLabels(spec *velerov1.BackupSpec) (func(map[string]string) bool, error) {
	written := spec.OrLabelSelectors
	if spec.LabelSelector != nil {
		written = []*metav1.LabelSelector{spec.LabelSelector}
	}
	var selectors []labels.Selector
	for _, one := range written {
		selector, err := metav1.LabelSelectorAsSelector(one)
		if err != nil {
			return nil, fmt.Errorf("label selector of the backup: %w", err)
		}
		selectors = append(selectors, selector)
	}
	return func(of map[string]string) bool {
		return len(selectors) == 0 ||
			slices.ContainsFunc(selectors, func(s labels.Selector) bool { return s.Matches(labels.Set(of)) })
	}, nil
}
