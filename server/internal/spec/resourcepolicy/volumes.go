package resourcepolicy

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// Action is what becomes of the data of a volume.
type Action string

// Actions.
const (
	Skip       Action = "skip"
	Snapshot   Action = "snapshot"
	FileBackup Action = "fs-backup"
	Custom     Action = "custom" // a plugin backs it up
)

// Volume is what rules look at: a persistent volume with its claim, or a volume of a pod. What is not known is nil.
type Volume struct {
	PV    *corev1.PersistentVolume
	Claim *corev1.PersistentVolumeClaim
	OfPod *corev1.Volume
}

// VolumePolicies are rules for volumes. The first rule that applies counts.
type VolumePolicies []VolumePolicy

// Action returns the action of the rules for a volume, "" if none applies.
func (p VolumePolicies) Action(v Volume) Action { return p.rule(v).action }

// SnapshotClass returns the name of the VolumeSnapshotClass that the rules choose for the snapshot of a volume, "" if
// they leave that to others.
func (p VolumePolicies) SnapshotClass(v Volume) string { return p.rule(v).snapshotClass }

// NamesMover reports whether a rule names Velero's data mover, which stands for the built-in one.
func (p VolumePolicies) NamesMover() bool {
	return slices.ContainsFunc(p, func(policy VolumePolicy) bool { return policy.namesMover })
}

// rule returns the rule that applies to a volume, an empty one if none does.
func (p VolumePolicies) rule(v Volume) VolumePolicy {
	for _, policy := range p {
		if policy.conditions.match(v) {
			return policy
		}
	}
	return VolumePolicy{}
}

// VolumePolicy is a rule for volumes.
type VolumePolicy struct {
	conditions    volumeConditions
	action        Action
	snapshotClass string
	namesMover    bool
}

// policy validates a rule. Its errors begin with the name of the field.
func (p *volumePolicy) policy() (VolumePolicy, error) {
	if actions := []string{"skip", "snapshot", "fs-backup", "custom"}; !slices.Contains(actions, p.Action.Type) {
		return VolumePolicy{}, fmt.Errorf("action.type: %q is not supported, want one of %s", p.Action.Type,
			strings.Join(actions, ", "))
	}
	if csi := p.Conditions.CSI; csi != nil && csi.Driver == "" && len(csi.VolumeAttributes) > 0 {
		return VolumePolicy{}, errors.New("conditions.csi.driver: it is missing, but volumeAttributes require it")
	}
	if _, err := parseCapacity(p.Conditions.Capacity); err != nil {
		return VolumePolicy{}, err
	}
	policy := VolumePolicy{conditions: p.Conditions, action: Action(p.Action.Type)}
	return policy, policy.setParameters(p.Action.Parameters)
}

// The parameters of the action snapshot. The action custom has those of its plugin.
const (
	snapshotClassParameter = "snapshotClass"
	dataMoverParameter     = "dataMover"
)

// setParameters validates the parameters of the action. Its errors begin with the name of the field. Parameters that
// nobody knows are no error, as in Velero; see unknownParameters.
func (p *VolumePolicy) setParameters(parameters map[string]any) error {
	for _, name := range []string{snapshotClassParameter, dataMoverParameter} {
		value, given := parameters[name]
		text, isText := value.(string)
		switch {
		case !given || p.action == Custom:
		case p.action != Snapshot:
			return fmt.Errorf("action.parameters.%s: action %s has no such parameter, which is for snapshot", name, p.action)
		case !isText:
			return fmt.Errorf("action.parameters.%s: %v is not a text", name, value)
		case name == dataMoverParameter && !velerov1.IsVeleroDataMover(text):
			return fmt.Errorf("action.parameters.%s: %q is not supported, want velero; spec.datamover of a backup names other "+
				"data movers", name, text)
		case name == dataMoverParameter:
			p.namesMover = true
		case text == "":
			return fmt.Errorf("action.parameters.%s: it is empty, want the name of a VolumeSnapshotClass", name)
		default:
			p.snapshotClass = text
		}
	}
	return nil
}

// unknownParameters returns the parameters of the action that have no effect.
func (p *volumePolicy) unknownParameters() (names []string) {
	for _, name := range slices.Sorted(maps.Keys(p.Action.Parameters)) {
		if p.Action.Type != string(Custom) && name != snapshotClassParameter && name != dataMoverParameter {
			names = append(names, name)
		}
	}
	return names
}

// bounds are a range of capacities. A maximum of zero means no maximum.
type bounds struct{ minimum, maximum resource.Quantity }

// parseCapacity reads "minimum,maximum", either of which may be empty.
func parseCapacity(capacity string) (b bounds, err error) {
	if capacity == "" {
		return b, nil
	}
	minimum, maximum, ok := strings.Cut(capacity, ",")
	if !ok || strings.Contains(maximum, ",") {
		return b, fmt.Errorf(`conditions.capacity: %q is not a range, want two quantities such as "10Gi,100Gi", one of which may be empty`, capacity)
	}
	for bound, text := range map[*resource.Quantity]string{&b.minimum: minimum, &b.maximum: maximum} {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		if *bound, err = resource.ParseQuantity(text); err != nil {
			return b, fmt.Errorf("conditions.capacity: %q: %w", text, err)
		}
	}
	if !b.maximum.IsZero() && b.maximum.Cmp(b.minimum) < 0 {
		return b, fmt.Errorf("conditions.capacity: %q has its larger quantity first, want the smaller one first", capacity)
	}
	return b, nil
}

func (b bounds) contain(size resource.Quantity) bool {
	return b.minimum.Cmp(size) <= 0 && (b.maximum.IsZero() || b.maximum.Cmp(size) >= 0)
}

// match reports whether a volume meets all conditions. Conditions about a persistent volume or a claim exclude a volume
// that has none, except for the capacity: the capacity of an unknown volume is zero, as in Velero.
func (c *volumeConditions) match(v Volume) bool {
	size, class := resource.Quantity{}, ""
	if v.PV != nil {
		size, class = *v.PV.Spec.Capacity.Storage(), v.PV.Spec.StorageClassName
	}
	allowed, _ := parseCapacity(c.Capacity) // it has been checked
	return allowed.contain(size) &&
		(len(c.StorageClass) == 0 || class != "" && slices.Contains(c.StorageClass, class)) &&
		c.NFS.match(v) && c.CSI.match(v) &&
		(len(c.VolumeTypes) == 0 ||
			slices.ContainsFunc(c.VolumeTypes, func(t string) bool { return strings.EqualFold(t, typeOf(v)) })) &&
		c.matchClaim(v.Claim)
}

func (c *volumeConditions) matchClaim(claim *corev1.PersistentVolumeClaim) bool {
	if claim == nil {
		claim = new(corev1.PersistentVolumeClaim)
	}
	for key, value := range c.PVCLabels {
		if has, ok := claim.Labels[key]; !ok || has != value {
			return false
		}
	}
	mode := ""
	if claim.Spec.VolumeMode != nil {
		mode = string(*claim.Spec.VolumeMode)
	}
	access := sets.New[string]()
	for _, m := range claim.Spec.AccessModes {
		access.Insert(string(m))
	}
	phase := string(claim.Status.Phase)
	return (len(c.PVCPhase) == 0 || phase != "" && slices.Contains(c.PVCPhase, phase)) &&
		(c.PVCVolumeMode == "" || c.PVCVolumeMode == mode) &&
		(len(c.PVCAccessModes) == 0 || access.Equal(sets.New(c.PVCAccessModes...)))
}

func (n *nfsVolume) match(v Volume) bool {
	if n == nil {
		return true
	}
	var source *corev1.NFSVolumeSource
	switch {
	case v.PV != nil:
		source = v.PV.Spec.NFS
	case v.OfPod != nil:
		source = v.OfPod.NFS
	}
	return source != nil && (n.Server == "" || n.Server == source.Server) && (n.Path == "" || n.Path == source.Path)
}

func (c *csiVolume) match(v Volume) bool {
	if c == nil {
		return true
	}
	driver, attributes := "", map[string]string(nil)
	switch {
	case v.PV != nil && v.PV.Spec.CSI != nil:
		driver, attributes = v.PV.Spec.CSI.Driver, v.PV.Spec.CSI.VolumeAttributes
	case v.PV == nil && v.OfPod != nil && v.OfPod.CSI != nil:
		driver, attributes = v.OfPod.CSI.Driver, v.OfPod.CSI.VolumeAttributes
	default:
		return false
	}
	if c.Driver != "" && c.Driver != driver {
		return false
	}
	for key, value := range c.VolumeAttributes {
		if attributes[key] != value {
			return false
		}
	}
	return true
}

// typeOf returns the type of a volume, "" if it is not known: the name of the field of its source. Velero's policies
// have the same names, except that they write storageOS.
func typeOf(v Volume) string {
	var source reflect.Value
	switch {
	case v.PV != nil:
		source = reflect.ValueOf(v.PV.Spec.PersistentVolumeSource)
	case v.OfPod != nil:
		source = reflect.ValueOf(v.OfPod.VolumeSource)
	default:
		return ""
	}
	for i := range source.NumField() {
		if !source.Field(i).IsNil() {
			name, _, _ := strings.Cut(source.Type().Field(i).Tag.Get("json"), ",")
			return name
		}
	}
	return ""
}
