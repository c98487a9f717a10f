// Package maintenance reads the ConfigMaps that say how repositories are maintained: the one of
// --repo-maintenance-job-configmap, and that of --backup-repository-configmap, with Velero's keys.
//
// The package imports the types of Kubernetes, configmap and podspec. Start reading at ParseJob.
package maintenance

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/kube/configmap"
	"github.com/cleat-dev/cleat/server/internal/spec/podspec"
)

const (
	// global is the key of the ConfigMap with what holds for repositories without a key of their own.
	global = "global"
	// defaultKeep is how many jobs of a repository are kept.
	defaultKeep = 3
)

// Job is how the jobs are made that maintain a repository.
type Job struct {
	Resources         corev1.ResourceRequirements
	Nodes             *metav1.LabelSelector // nil for any
	Keep              int                   // how many ended jobs of the repository are kept
	PriorityClassName string
	Annotations       map[string]string // of pods
	Labels            map[string]string // of pods
}

// document is the value of a key of the ConfigMap.
type document struct {
	LoadAffinity              []affinity         `json:"loadAffinity"`
	PodResources              *podspec.Resources `json:"podResources"`
	KeepLatestMaintenanceJobs *int               `json:"keepLatestMaintenanceJobs"`

	// These are read from the key global only.
	PriorityClassName string            `json:"priorityClassName"`
	PodAnnotations    map[string]string `json:"podAnnotations"`
	PodLabels         map[string]string `json:"podLabels"`
}

type affinity struct {
	NodeSelector metav1.LabelSelector `json:"nodeSelector"`
}

// DefaultJob returns what holds without a ConfigMap.
func DefaultJob() Job { return Job{Keep: defaultKeep} }

// ParseJob returns what a ConfigMap says about the jobs of a repository: in the key NAMESPACE-LOCATION-ENGINE, and in
// the key global, which holds where the first one says nothing. The warnings name what has no effect.
func ParseJob(cm *corev1.ConfigMap, of *velerov1.BackupRepositorySpec) (Job, []string, error) {
	job := DefaultJob()
	var warnings []string
	problem := func(key string, err error) error {
		return fmt.Errorf("ConfigMap %s/%s: %s: %w", cm.Namespace, cm.Name, key, err)
	}
	own := fmt.Sprintf("%s-%s-%s", of.VolumeNamespace, of.BackupStorageLocation, of.RepositoryType)
	for _, key := range []string{global, own} { // the second one wins
		text, found := cm.Data[key]
		if !found {
			continue
		}
		d, ignored, err := configmap.DecodeKnown[document]([]byte(text))
		if err == nil {
			err = d.apply(&job)
		}
		if err != nil {
			return Job{}, nil, problem(key, err)
		}
		for _, name := range ignored {
			warnings = append(warnings, problem(key, errors.New(name+" is unknown and has no effect")).Error())
		}
		if len(d.LoadAffinity) > 1 {
			warnings = append(warnings, problem(key, fmt.Errorf("loadAffinity has %d selectors, only the first has an effect",
				len(d.LoadAffinity))).Error())
		}
		if key == global {
			job.PriorityClassName, job.Annotations, job.Labels = d.PriorityClassName, d.PodAnnotations, d.PodLabels
		} else if d.PriorityClassName != "" || len(d.PodAnnotations) > 0 || len(d.PodLabels) > 0 {
			warnings = append(warnings, problem(key, fmt.Errorf("priorityClassName, podAnnotations and podLabels have an "+
				"effect in the key %s only", global)).Error())
		}
	}
	return job, warnings, nil
}

// apply writes what a document says to a job.
func (d *document) apply(job *Job) error {
	if d.PodResources != nil {
		resources, err := d.PodResources.Requirements()
		if err != nil {
			return err
		}
		job.Resources = resources
	}
	if len(d.LoadAffinity) > 0 {
		nodes := &d.LoadAffinity[0].NodeSelector
		if _, err := metav1.LabelSelectorAsSelector(nodes); err != nil {
			return fmt.Errorf("loadAffinity[0].nodeSelector: %w", err)
		}
		job.Nodes = nodes
	}
	if keep := d.KeepLatestMaintenanceJobs; keep != nil {
		if *keep < 0 {
			return fmt.Errorf("keepLatestMaintenanceJobs is %d, want 0 or more", *keep)
		}
		job.Keep = *keep
	}
	return nil
}

// ParseRepository returns the settings of new repositories of an engine: the JSON object in the key of a ConfigMap with
// the name of the engine, its values as texts. It returns nil if the ConfigMap has no such key.
func ParseRepository(cm *corev1.ConfigMap, engine velerov1.RepositoryType) (map[string]string, error) {
	text, found := cm.Data[string(engine)]
	if !found {
		return nil, nil
	}
	values := map[string]any{}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&values); err != nil {
		return nil, fmt.Errorf("ConfigMap %s/%s: %s: want a JSON object such as {\"cacheLimitMB\": 2048}: %w", cm.Namespace,
			cm.Name, engine, err)
	}
	settings := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		switch value := values[name].(type) {
		case string, json.Number, bool:
			settings[name] = fmt.Sprint(value)
		default:
			return nil, fmt.Errorf("ConfigMap %s/%s: %s: %s is %T, want a text, a number, true or false", cm.Namespace, cm.Name,
				engine, name, value)
		}
	}
	if err := CheckRepository(settings); err != nil {
		return nil, fmt.Errorf("ConfigMap %s/%s: %s: %w", cm.Namespace, cm.Name, engine, err)
	}
	return settings, nil
}

// CheckRepository returns an error for a setting of a repository that no data mover can use.
func CheckRepository(settings map[string]string) error {
	if _, err := CacheLimit(settings); err != nil {
		return err
	}
	switch interval := settings["fullMaintenanceInterval"]; interval {
	case "", "normalGC", "fastGC", "eagerGC":
		return nil
	default:
		return fmt.Errorf("fullMaintenanceInterval is %q, want normalGC, fastGC or eagerGC", interval)
	}
}

// CacheLimit returns how many MB the cache of a repository may have, by its settings; 0 if they do not say it.
func CacheLimit(settings map[string]string) (int64, error) {
	text := settings["cacheLimitMB"]
	if text == "" {
		return 0, nil
	}
	limit, err := strconv.ParseInt(text, 10, 32)
	if err != nil || limit < 0 {
		return 0, fmt.Errorf("cacheLimitMB is %q, want a number of MB", text)
	}
	return limit, nil
}
