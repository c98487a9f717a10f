package volumes

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

const (
	zoneLabel    = corev1.LabelTopologyZone
	oldZoneLabel = "failure-domain.beta.kubernetes.io/zone"
	gkeZone      = "topology.gke.io/zone"
)

// zoneOf returns the availability zone of a volume, "" if it has none: that of its labels, or the one that its node
// affinity requires. The zones of a regional disk of GKE are joined by "__", as Velero's plugin for it expects.
func zoneOf(pv *corev1.PersistentVolume) string {
	if zone := cmp.Or(pv.Labels[zoneLabel], pv.Labels[oldZoneLabel]); zone != "" {
		return zone
	}
	if pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil {
		return ""
	}
	keys := []string{
		"topology.ebs.csi.aws.com/zone", "topology.disk.csi.azure.com/zone", gkeZone,
		"topology.cinder.csi.openstack.org/zone", "topology.manila.csi.openstack.org/zone", zoneLabel, oldZoneLabel,
	}
	var ofGKE []string
	for _, term := range pv.Spec.NodeAffinity.Required.NodeSelectorTerms {
		for _, e := range term.MatchExpressions {
			switch {
			case !slices.Contains(keys, e.Key) || e.Operator != corev1.NodeSelectorOpIn || len(e.Values) == 0:
			case e.Key != gkeZone:
				return e.Values[0]
			default:
				ofGKE = append(ofGKE, e.Values[0])
			}
		}
	}
	return strings.Join(ofGKE, "__")
}
