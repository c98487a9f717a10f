package settings

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cleat-dev/cleat/server/internal/kube/configmap"
	"github.com/cleat-dev/cleat/server/internal/spec/podspec"
)

// Settings are the contents of the ConfigMap. An agent without one has the zero value.
type Settings struct {
	LoadConcurrency    LoadConcurrency      `json:"loadConcurrency"`
	LoadAffinity       []LoadAffinity       `json:"loadAffinity"`
	BackupPVC          map[string]BackupPVC `json:"backupPVC"` // by storage class of the source volume
	RestorePVC         RestorePVC           `json:"restorePVC"`
	PodResources       podspec.Resources    `json:"podResources"`
	PriorityClassName  string               `json:"priorityClassName"`
	PrivilegedFsBackup bool                 `json:"privilegedFsBackup"`
	CachePVC           *CachePVC            `json:"cachePVC"`
	PodAnnotations     map[string]string    `json:"podAnnotations"`
	PodLabels          map[string]string    `json:"podLabels"`
}

// LoadConcurrency limits the loads that are moved at once on a node, and the loads that are prepared at once in the
// cluster.
type LoadConcurrency struct {
	// GlobalConfig is the limit of nodes without a rule of their own.
	GlobalConfig int `json:"globalConfig"`
	// PerNodeConfig are rules for nodes. If several match a node, the lowest number is its limit.
	PerNodeConfig []NodeRule `json:"perNodeConfig"`
	// PrepareQueueLength is how many loads may be Accepted or Prepared at once. Without a positive number there is no
	// limit.
	PrepareQueueLength int `json:"prepareQueueLength"`
}

// NodeRule is the limit of the nodes that a selector matches.
type NodeRule struct {
	NodeSelector metav1.LabelSelector `json:"nodeSelector"`
	Number       int                  `json:"number"`
}

// LoadAffinity restricts the nodes on which volumes are exposed, for all volumes or for those of one storage class.
type LoadAffinity struct {
	NodeSelector metav1.LabelSelector `json:"nodeSelector"`
	StorageClass string               `json:"storageClass"`
}

// BackupPVC describes how the volume claim of an exposed snapshot differs from the claim of the source.
type BackupPVC struct {
	StorageClass    string            `json:"storageClass"`
	ReadOnly        bool              `json:"readOnly"`
	SPCNoRelabeling bool              `json:"spcNoRelabeling"`
	Annotations     map[string]string `json:"annotations"`
	Copies
}

// RestorePVC describes how volumes are exposed for a restore.
type RestorePVC struct {
	IgnoreDelayBinding bool `json:"ignoreDelayBinding"`
	Copies
}

// Copies are the names of objects in the namespace of a volume claim that its CSI driver needs beside the claim by
// which the volume is exposed.
type Copies struct {
	SecretNames    []string `json:"secretNames"`
	ConfigMapNames []string `json:"configMapNames"`
}

// CachePVC is the volume on which a mover stores its cache during a restore.
type CachePVC struct {
	StorageClass string `json:"storageClass"`
	// ResidentThresholdInMB is from which size of the data on there is such a volume.
	ResidentThresholdInMB int64 `json:"residentThresholdInMB"`
}

// misplaced lists the keys of loadConcurrency that users write beside it.
var misplaced = []string{"globalConfig", "perNodeConfig", "prepareQueueLength"}

// Parse reads the ConfigMap. The warnings name the values that are ignored.
func Parse(cm *corev1.ConfigMap) (*Settings, []string, error) {
	problem := func(err error) error {
		return fmt.Errorf("ConfigMap %s/%s: %w", cm.Namespace, cm.Name, err)
	}
	document, err := configmap.Document(cm)
	if err != nil {
		return nil, nil, problem(err)
	}
	s, ignored, err := configmap.DecodeKnown[Settings](document)
	if err != nil {
		return nil, nil, problem(err)
	}
	warnings, err := s.check()
	if err != nil {
		return nil, nil, problem(err)
	}
	for _, key := range ignored {
		if slices.Contains(misplaced, key) {
			warnings = append(warnings, fmt.Sprintf("%s is at the top level, where it has no effect; write it as "+
				"loadConcurrency.%s: {\"loadConcurrency\": {%q: ...}}", key, key, key))
		} else {
			warnings = append(warnings, key+" is unknown and has no effect")
		}
	}
	for i := range warnings {
		warnings[i] = problem(errors.New(warnings[i])).Error()
	}
	return &s, warnings, nil
}

// check validates the values and resets those without a meaning.
func (s *Settings) check() (warnings []string, err error) {
	c := &s.LoadConcurrency
	if c.PrepareQueueLength < 0 {
		warnings = append(warnings, fmt.Sprintf("loadConcurrency.prepareQueueLength is %d and is ignored, want a positive "+
			"number: any number of loads is prepared at once", c.PrepareQueueLength))
		c.PrepareQueueLength = 0
	}
	if c.GlobalConfig < 0 {
		warnings = append(warnings, fmt.Sprintf("loadConcurrency.globalConfig is %d and is ignored, want a positive "+
			"number: the limit is %d", c.GlobalConfig, defaultLimit))
		c.GlobalConfig = 0
	}
	for i, rule := range c.PerNodeConfig {
		where := fmt.Sprintf("loadConcurrency.perNodeConfig[%d]", i)
		if _, err := metav1.LabelSelectorAsSelector(&rule.NodeSelector); err != nil {
			return nil, fmt.Errorf("%s.nodeSelector: %w", where, err)
		}
		if rule.Number <= 0 {
			warnings = append(warnings, fmt.Sprintf("%s.number is %d, want a positive number: the rule is ignored", where,
				rule.Number))
		}
	}
	c.PerNodeConfig = slices.DeleteFunc(c.PerNodeConfig, func(rule NodeRule) bool { return rule.Number <= 0 })
	for i, affinity := range s.LoadAffinity {
		if _, err := metav1.LabelSelectorAsSelector(&affinity.NodeSelector); err != nil {
			return nil, fmt.Errorf("loadAffinity[%d].nodeSelector: %w", i, err)
		}
	}
	for class, claim := range s.BackupPVC {
		if claim.SPCNoRelabeling && !claim.ReadOnly {
			warnings = append(warnings, fmt.Sprintf("backupPVC.%s.spcNoRelabeling is ignored, because it needs readOnly: true",
				class))
			claim.SPCNoRelabeling = false
			s.BackupPVC[class] = claim
		}
	}
	if s.CachePVC != nil && s.CachePVC.StorageClass == "" {
		warnings = append(warnings, "cachePVC is ignored, because it needs a storageClass")
		s.CachePVC = nil
	}
	if _, err := s.PodResources.Requirements(); err != nil {
		warnings = append(warnings, fmt.Sprintf("podResources are ignored: %v", err))
		s.PodResources = podspec.Resources{}
	}
	slices.Sort(warnings)
	return warnings, nil
}

// Affinity returns the selector of nodes for the volumes of a storage class: the first that names the class, or else
// the first without a class, or else nil.
func (s *Settings) Affinity(class string) *metav1.LabelSelector {
	i := slices.IndexFunc(s.LoadAffinity, func(a LoadAffinity) bool { return class != "" && a.StorageClass == class })
	if i < 0 {
		i = slices.IndexFunc(s.LoadAffinity, func(a LoadAffinity) bool { return a.StorageClass == "" })
	}
	if i < 0 {
		return nil
	}
	return &s.LoadAffinity[i].NodeSelector
}

// WithoutEffect returns the keys that are set and have no effect: those about pods that expose volumes in an agent that
// makes none, and those about pods that move data in one that moves data itself.
func (s *Settings) WithoutEffect(exposes, moves bool) []string {
	without := map[string]bool{}
	if !moves {
		maps.Copy(without, map[string]bool{"privilegedFsBackup": s.PrivilegedFsBackup, "cachePVC": s.CachePVC != nil})
	}
	if !exposes {
		maps.Copy(without, map[string]bool{
			"loadAffinity": len(s.LoadAffinity) > 0, "backupPVC": len(s.BackupPVC) > 0,
			"restorePVC":   !reflect.ValueOf(s.RestorePVC).IsZero(),
			"podResources": s.PodResources != podspec.Resources{}, "priorityClassName": s.PriorityClassName != "",
			"podAnnotations": len(s.PodAnnotations) > 0, "podLabels": len(s.PodLabels) > 0,
		})
	}
	maps.DeleteFunc(without, func(_ string, set bool) bool { return !set })
	return slices.Sorted(maps.Keys(without))
}
