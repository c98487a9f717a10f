package rehearsals

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/spec/config"
)

// installationLabel of a namespace of a rehearsal is the namespace of the server that has made it.
const installationLabel = "cleat.dev/rehearsal-of"

// sourceAnnotation of a namespace of a rehearsal is its name in the backup.
const sourceAnnotation = "cleat.dev/rehearsal-source"

// maxNamespaces bounds the namespaces of a rehearsal.
const maxNamespaces = 1000

// maxNames is how often other names are chosen because one is taken.
const maxNames = 5

// plan validates a rehearsal and names its namespaces. problem is why it cannot begin.
func (r *Controller) plan(ctx context.Context, restore *velerov1.Restore, s *state) (problem string, err error) {
	if _, err := timeoutOf(restore, 0); err != nil {
		return err.Error(), nil
	}
	objects, err := r.guarded(ctx, restore)
	if errors.Is(err, errBackup) {
		return err.Error(), nil
	}
	if err != nil {
		return "", err
	}
	sources, err := namespacesOf(ctx, objects, restore.Spec.BackupName)
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrDamaged) {
		return fmt.Sprintf("the list of what is in backup %s cannot be read: %v", restore.Spec.BackupName, err), nil
	}
	if err != nil {
		return "", err
	}
	s.Server = slices.Contains(sources, r.Namespace)
	sources = slices.DeleteFunc(sources, func(name string) bool { return name == r.Namespace })
	if len(sources) == 0 {
		return "the backup has nothing in a namespace, but that of the server, which is not rehearsed", nil
	}
	if len(sources) > maxNamespaces {
		return fmt.Sprintf("the backup has %d namespaces, and up to %d can be rehearsed", len(sources), maxNamespaces), nil
	}
	s.name(restore, sources)
	return "", nil
}

// name chooses the names of the namespaces.
func (s *state) name(restore *velerov1.Restore, sources []string) {
	s.Names++
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d", restore.UID, s.Names))
	s.Namespaces = map[string]string{}
	for i, source := range sources {
		s.Namespaces[source] = fmt.Sprintf("rehearsal-%s-%d", hex.EncodeToString(sum[:5]), i+1)
	}
}

// sources returns the namespaces in the backup, in the order of the names of those of the rehearsal.
func (s *state) sources() []string {
	var all []string
	for source := range s.Namespaces {
		all = append(all, source)
	}
	slices.SortFunc(all, func(a, b string) int {
		x, y := s.Namespaces[a], s.Namespaces[b]
		return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y))
	})
	return all
}

// namespacesOf returns the namespaces of the items in a backup. The list of the items is streamed.
func namespacesOf(ctx context.Context, objects *store.Store, backup string) ([]string, error) {
	list, err := objects.Get(ctx, velerov1.DownloadTargetKindBackupResourceList, backup)
	if err != nil {
		return nil, err
	}
	defer func() { _ = list.Close() }() // only read from
	found, err := readNamespaces(list)
	if err != nil {
		return nil, fmt.Errorf("read the resource list of backup %s: %w", backup, err)
	}
	return found, nil
}

// readNamespaces returns the namespaces of a list of items: {"v1/Pod":["namespace/name"]}.
func readNamespaces(list io.Reader) ([]string, error) {
	seen := map[string]bool{}
	d := jsontext.NewDecoder(list)
	kind := ""
	for {
		token, err := d.ReadToken()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", store.ErrDamaged, err)
		}
		depth := d.StackDepth()
		if token.Kind() != '"' {
			continue
		}
		switch text := token.String(); depth {
		case 1:
			kind = text
		case 2:
			namespace, _, namespaced := strings.Cut(text, "/")
			if kind == "v1/Namespace" {
				namespace, namespaced = text, true
			}
			if namespaced {
				seen[namespace] = true
			}
		}
		if len(seen) > 10*maxNamespaces {
			break
		}
	}
	names := make([]string, 0, len(seen))
	for name := range seen {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

// prepare makes the namespaces and what shuts them in, and begins the restore.
func (r *Controller) prepare(ctx context.Context, restore *velerov1.Restore, s state) (ctrl.Result, error) {
	if err := r.copyClasses(ctx, restore); err != nil {
		return ctrl.Result{}, err
	}
	for _, source := range s.sources() {
		taken, err := r.make(ctx, restore, source, s)
		if err != nil {
			return ctrl.Result{}, err
		}
		if taken == "" {
			continue
		}
		if s.Names < maxNames {
			r.Log.Info("a name for a namespace of a rehearsal is taken, so others are chosen", "restore", restore.Name,
				"namespace", s.Namespaces[source])
			s.name(restore, s.sources())
			return again(r.advance(ctx, restore, velerov1.RehearsalPreparing, s, nil))
		}
		s.Problems = append(s.Problems, fmt.Sprintf("%s; %d names were tried", taken, s.Names))
		return again(r.conclude(ctx, restore, s))
	}
	s.Prepared = r.Now()
	return again(r.advance(ctx, restore, velerov1.RehearsalRestoring, s, func(restore *velerov1.Restore) {
		restore.Spec.NamespaceMapping = s.Namespaces
		if s.Server {
			restore.Spec.ExcludedNamespaces = []string{r.Namespace}
		}
		restore.Spec.IncludedNamespaces, restore.Spec.IncludeClusterResources = nil, new(true)
		restore.Spec.ExistingResourcePolicy, restore.Spec.PreserveNodePorts = velerov1.PolicyTypeNone, new(false)
		restore.Status = velerov1.RestoreStatus{Phase: velerov1.RestorePhaseNew}
	}))
}

// make makes the namespace for one of the backup, unless it exists. taken says that it belongs to something else.
func (r *Controller) make(
	ctx context.Context, restore *velerov1.Restore, source string, s state,
) (taken string, err error) {
	name := s.Namespaces[source]
	proof, err := r.Proofs.sign(ctx, restore.UID, name, "")
	if err != nil {
		return "", err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: name,
		Labels: map[string]string{
			velerov1.RehearsalLabel: string(restore.UID), installationLabel: r.Namespace,
			"pod-security.kubernetes.io/enforce": strings.ToLower(string(r.Settings.PodSecurity)),
		},
		Annotations: map[string]string{sourceAnnotation: source, proofAnnotation: proof},
	}}
	err = r.Create(ctx, namespace)
	if apierrors.IsAlreadyExists(err) {
		err = r.Live.Get(ctx, client.ObjectKey{Name: name}, namespace)
	}
	if err != nil {
		return "", fmt.Errorf("create namespace %s: %w", name, err)
	}
	made, err := r.Proofs.Made(ctx, restore.UID, namespace)
	if err == nil && !made {
		if made, err = r.Proofs.begun(ctx, restore.UID, namespace); err == nil && made && namespace.DeletionTimestamp == nil {
			err = r.Proofs.note(ctx, r.Client, restore.UID, namespace)
		}
	}
	if err != nil {
		return "", err
	}
	if !made || namespace.DeletionTimestamp != nil {
		return fmt.Sprintf("namespace %s exists and is not one of this rehearsal", name), nil
	}
	for _, object := range r.shutIn(restore, name, s) {
		if err := r.Create(ctx, object); client.IgnoreAlreadyExists(err) != nil {
			return "", fmt.Errorf("create %T %s/%s: %w", object, name, object.GetName(), err)
		}
	}
	return "", nil
}

// shutIn returns the objects that shut a namespace in.
func (r *Controller) shutIn(restore *velerov1.Restore, namespace string, s state) []client.Object {
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{
			velerov1.RehearsalLabel: string(restore.UID)}}
	}
	both := []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}
	limits := r.Settings.Limits
	cpu, memory := resource.MustParse(limits.CPU), resource.MustParse(limits.Memory)
	objects := []client.Object{
		&networkingv1.NetworkPolicy{ObjectMeta: meta("rehearsal-deny-all"),
			Spec: networkingv1.NetworkPolicySpec{PolicyTypes: both}},
		&corev1.ResourceQuota{ObjectMeta: meta("rehearsal"), Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
			corev1.ResourceRequestsCPU:           cpu,
			corev1.ResourceRequestsMemory:        memory,
			corev1.ResourceRequestsStorage:       resource.MustParse(limits.Storage),
			corev1.ResourcePods:                  *resource.NewQuantity(int64(limits.Pods), resource.DecimalSI),
			corev1.ResourceServicesLoadBalancers: resource.MustParse("0"),
			corev1.ResourceServicesNodePorts:     resource.MustParse("0"),
		}}},
		&corev1.LimitRange{ObjectMeta: meta("rehearsal"), Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
			Type:    corev1.LimitTypeContainer,
			Max:     corev1.ResourceList{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory},
			Default: corev1.ResourceList{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory},
			DefaultRequest: corev1.ResourceList{
				corev1.ResourceCPU: least("10m", cpu), corev1.ResourceMemory: least("16Mi", memory),
			},
		}}}},
	}
	if r.Settings.Network == config.NetworkNone {
		return objects
	}
	// By their names, because others can give the labels of a rehearsal to their namespaces.
	inside := []networkingv1.NetworkPolicyPeer{{NamespaceSelector: &metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: corev1.LabelMetadataName,
			Operator: metav1.LabelSelectorOpIn, Values: slices.Sorted(maps.Values(s.Namespaces))}}}}}
	allow := networkingv1.NetworkPolicySpec{
		PolicyTypes: both,
		Ingress:     []networkingv1.NetworkPolicyIngressRule{{From: inside}},
		Egress:      []networkingv1.NetworkPolicyEgressRule{{To: inside}},
	}
	if r.Settings.Network == config.NetworkWithinAndDNS {
		allow.Egress = append(allow.Egress, networkingv1.NetworkPolicyEgressRule{
			To: []networkingv1.NetworkPolicyPeer{{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: "kube-system"}},
				PodSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{"k8s-app": "kube-dns"}},
			}},
			Ports: []networkingv1.NetworkPolicyPort{
				{Protocol: new(corev1.ProtocolUDP), Port: new(intstr.FromInt32(53))},
				{Protocol: new(corev1.ProtocolTCP), Port: new(intstr.FromInt32(53))},
			},
		})
	}
	return append(objects, &networkingv1.NetworkPolicy{ObjectMeta: meta("rehearsal-within"), Spec: allow})
}

// least returns the smaller quantity.
func least(text string, other resource.Quantity) resource.Quantity {
	if q := resource.MustParse(text); q.Cmp(other) < 0 {
		return q
	}
	return other
}
