package app

import (
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/engine/restore/plan"
	"github.com/cleat-dev/cleat/server/internal/spec/config"
	"github.com/cleat-dev/cleat/server/internal/spec/maintenance"
	"github.com/cleat-dev/cleat/server/internal/spec/resourcepolicy"
)

// CheckServer reads, as a server does later, what its flags and the ConfigMaps that they name say about restores,
// backups and repositories. It returns what has no effect, and what is wrong.
func CheckServer(
	ctx context.Context, reader client.Reader, namespace string, o *config.Options,
	repositories []velerov1.BackupRepository,
) (without, wrong []string) {
	add := func(warnings []string, err error) {
		for _, warning := range warnings {
			if !slices.Contains(without, warning) { // of another repository
				without = append(without, warning)
			}
		}
		if err != nil && !slices.Contains(wrong, err.Error()) {
			wrong = append(wrong, err.Error())
		}
	}
	if _, err := plan.ParsePriorities(o.RestoreResourcePriorities); err != nil {
		add(nil, fmt.Errorf("--restore-resource-priorities: %w", err))
	}
	cm, err := configMap(ctx, reader, namespace, "repo-maintenance-job-configmap", o.RepoMaintenanceJobConfigMap)
	add(nil, err)
	if cm != nil {
		for _, r := range slices.Concat([]velerov1.BackupRepository{{}}, repositories) {
			_, warnings, err := maintenance.ParseJob(cm, &r.Spec)
			add(warnings, err)
		}
	}
	cm, err = configMap(ctx, reader, namespace, "backup-repository-configmap", o.BackupRepositoryConfigMap)
	add(nil, err)
	if cm != nil {
		for _, engine := range []velerov1.RepositoryType{velerov1.RepositoryTypeKopia, velerov1.RepositoryTypeRestic} {
			_, err := maintenance.ParseRepository(cm, engine)
			add(nil, err)
		}
	}
	cm, err = configMap(ctx, reader, namespace, "global-backup-volume-policies-configmap",
		o.GlobalVolumePoliciesConfigMap)
	add(nil, err)
	if cm != nil {
		if _, err := resourcepolicy.Parse(cm); err != nil {
			add(nil, fmt.Errorf("--global-backup-volume-policies-configmap: %w", err))
		}
	}
	for i := range repositories {
		if err := maintenance.CheckRepository(repositories[i].Spec.RepositoryConfig); err != nil {
			add(nil, fmt.Errorf("BackupRepository %s: spec.repositoryConfig: %w", repositories[i].Name, err))
		}
	}
	return without, wrong
}

// CheckNodeAgent reads, as an agent does when it starts, what the ConfigMaps that its flags name say. It returns what
// has no effect, and what is wrong.
func CheckNodeAgent(
	ctx context.Context, reader client.Reader, namespace string, o *config.Options, agent NodeAgent,
) (without, wrong []string) {
	s, without, err := agentSettings(ctx, reader, namespace, o, agent)
	if err != nil {
		return without, []string{err.Error()}
	}
	for _, key := range s.WithoutEffect(true, agent.MoveInPods) {
		without = append(without, fmt.Sprintf("ConfigMap %s/%s: %s has no effect", namespace, agent.ConfigMap, key))
	}
	return without, nil
}
