package takeover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/location"
	"github.com/cleat-dev/cleat/server/internal/kube/repopassword"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
	"github.com/cleat-dev/cleat/server/internal/setup/install"
	"github.com/cleat-dev/cleat/versioning/kinds"
)

// Findings are the results of a check.
type Findings struct {
	Missed []string // features in use that cleat lacks
	Notes  []string // effects of a take-over, and open questions
}

func (f *Findings) miss(format string, args ...any) {
	f.Missed = append(f.Missed, fmt.Sprintf(format, args...))
}
func (f *Findings) note(format string, args ...any) {
	f.Notes = append(f.Notes, fmt.Sprintf(format, args...))
}

// Check looks for features in use that a take-over would lose. It writes nothing. answer is the status of Velero's
// server, nil if it does not answer.
func (t *Takeover) Check(ctx context.Context, answer *velerov1.ServerStatusRequest) (*Findings, error) {
	velero, err := t.velero(ctx)
	if err != nil {
		return nil, err
	}
	f := &Findings{}
	if _, stopped, _ := takenOver(velero); stopped {
		f.note("deployment %s was taken over already; \"cleat takeover start\" goes on with it", velero.Name)
	}
	f.server(velero, answer)
	var repositories velerov1.BackupRepositoryList
	if err := ignoreAbsent(t.list(ctx, &repositories)); err != nil {
		return nil, err
	}
	return f, errors.Join(
		t.checkServer(ctx, velero, f, repositories.Items), t.checkDefinitions(ctx, f), t.checkNodeAgents(ctx, f),
		t.checkLocations(ctx, f, repositories.Items), t.checkVolumeData(ctx, f, repositories.Items), t.checkRuns(ctx, f),
	)
}

// server looks at the version, the plugins and the owner of Velero's Deployment.
func (f *Findings) server(velero *appsv1.Deployment, answer *velerov1.ServerStatusRequest) {
	for _, c := range velero.Spec.Template.Spec.InitContainers {
		f.note("plugin image %s runs unmodified", c.Image)
	}
	if by := velero.Labels["app.kubernetes.io/managed-by"]; by != "" {
		f.note("deployment %s is managed by %s, which must not scale it up again while cleat runs", velero.Name, by)
	}
	if answer == nil {
		f.note("Velero's server does not answer: its version and its plugins are not known; its image is %s", imageOf(velero))
		return
	}
	version := answer.Status.ServerVersion
	switch order, err := serverreport.CompareVelero(version); {
	case err != nil:
		f.note("the version of Velero is %q, which says nothing about what it does; cleat does what Velero %s does", version,
			serverreport.VeleroVersion)
	case order > 0:
		f.miss("Velero is %s; cleat does what Velero %s does, and knows nothing newer", version, serverreport.VeleroVersion)
	default:
		f.note("Velero is %s; cleat does what Velero %s does", version, serverreport.VeleroVersion)
	}
	for _, plugin := range answer.Status.Plugins {
		if _, known := kinds.Lookup(plugin.Kind); !known {
			f.miss("plugin %s is of kind %s, which cleat does not know", plugin.Name, plugin.Kind)
		}
	}
}

// checkServer has the server read its arguments, and what they name.
func (t *Takeover) checkServer(
	ctx context.Context, velero *appsv1.Deployment, f *Findings, repositories []velerov1.BackupRepository,
) error {
	arguments, err := argumentsOf(velero)
	if err == nil {
		t.checkProgram(ctx, f, "server", t.Arguments(arguments), repositories)
	}
	return err
}

// checkProgram has a program read its arguments, and what they name.
func (t *Takeover) checkProgram(
	ctx context.Context, f *Findings, who string, parsed Parsed, repositories []velerov1.BackupRepository,
) {
	for _, flag := range parsed.Unknown {
		f.miss("%s flag %s is unknown, and is left out", who, flag)
	}
	f.Missed = append(f.Missed, parsed.Warnings...)
	if parsed.Err != nil {
		f.miss("the %s would not start: %s", who, strings.ReplaceAll(parsed.Err.Error(), "\n", "; "))
	}
	if parsed.Check == nil {
		return
	}
	without, wrong := parsed.Check(ctx, t.Client, t.Namespace, repositories)
	for _, text := range wrong {
		f.miss("the %s would refuse: %s", who, text)
	}
	for _, text := range without {
		f.note("the %s warns: %s", who, text)
	}
}

func (t *Takeover) checkDefinitions(ctx context.Context, f *Findings) error {
	return install.CompleteDefinitions(ctx, t.Client, true, func(name, action string) {
		f.note("custom resource definition %s is %s, and stays so: it has what cleat needs and this cluster's lacks", name,
			action)
	})
}

func (t *Takeover) checkNodeAgents(ctx context.Context, f *Findings) error {
	agents, err := t.veleroAgents(ctx)
	if err != nil {
		return err
	}
	movers, err := t.movers(ctx)
	if err != nil {
		return err
	}
	replaced := false
	for i := range agents {
		agent := &agents[i]
		switch {
		case runsOnWindows(agent):
			f.miss("daemonset %s moves the data of volumes on Windows nodes, for which cleat has no node agents: it is stopped",
				agent.Name)
			continue
		case replaced:
			f.miss("daemonset %s runs node agents of Velero beside another one: it is stopped, and cleat runs its agents on "+
				"the nodes of the other one only", agent.Name)
			continue
		}
		replaced = true
		f.note("daemonset %s runs Velero's node agents: it is stopped, and daemonset %s runs cleat's in their place, with "+
			"the data movers %s", agent.Name, AgentsName, strings.Join(movers, ", "))
		arguments, container, err := agentArguments(agent)
		if err != nil {
			return err
		}
		if !isPrivileged(container) {
			f.note("the node agents of daemonset %s are not privileged; cleat's move volumes that are block devices only if "+
				"they are: use --privileged-node-agent if there are some", agent.Name)
		}
		t.checkProgram(ctx, f, "node agent", t.AgentArguments(arguments), nil)
	}
	return nil
}

// checkLocations validates the locations as the server does, and looks for those in which data movers cannot keep the
// data of volumes.
func (t *Takeover) checkLocations(ctx context.Context, f *Findings, repositories []velerov1.BackupRepository) error {
	var locations velerov1.BackupStorageLocationList
	var snapshots velerov1.VolumeSnapshotLocationList
	if err := errors.Join(t.list(ctx, &locations), t.list(ctx, &snapshots)); err != nil {
		return err
	}
	agents, err := t.veleroAgents(ctx)
	if err != nil {
		return err
	}
	for i := range locations.Items {
		l := &locations.Items[i]
		if err := location.Check(ctx, t.Client, l); err != nil {
			f.miss("the server would refuse backup storage location %s: %v", l.Name, err)
		}
		used := len(agents) > 0 || slices.ContainsFunc(repositories, func(r velerov1.BackupRepository) bool {
			return r.Spec.BackupStorageLocation == l.Name
		})
		switch err := t.CheckVolumes(&l.Spec); {
		case err == nil:
		case used:
			f.miss("the data of volumes in backup storage location %s (%s) is neither restored nor stored: %v; stay with "+
				"Velero, or back up the volumes by snapshots, or into a location in S3, before you take over", l.Name,
				l.Spec.Provider, err)
		default:
			f.note("no data of volumes can be stored in backup storage location %s (%s): %v", l.Name, l.Spec.Provider, err)
		}
	}
	for i := range snapshots.Items {
		if err := location.CheckSnapshots(ctx, t.Client, &snapshots.Items[i]); err != nil {
			f.miss("the server would refuse volume snapshot location %s: %v", snapshots.Items[i].Name, err)
		}
	}
	for _, r := range repositories {
		if !slices.ContainsFunc(locations.Items, func(l velerov1.BackupStorageLocation) bool {
			return l.Name == r.Spec.BackupStorageLocation
		}) {
			f.note("repository %s is in backup storage location %s, which does not exist: nothing uses it", r.Name,
				r.Spec.BackupStorageLocation)
		}
	}
	return nil
}

// checkVolumeData looks for the data of volumes that Velero's node agent has moved, or moves.
func (t *Takeover) checkVolumeData(
	ctx context.Context, f *Findings, repositories []velerov1.BackupRepository,
) error {
	for _, r := range repositories {
		if engine := cmp.Or(r.Spec.RepositoryType, velerov1.RepositoryTypeKopia); velerov1.MoverOf(engine) == "" {
			f.miss("repository %s (%s) of namespace %s: there is no data mover for it; back up its volumes anew, and until "+
				"that is old enough, restore them after \"cleat takeover back\"", r.Name, engine, r.Spec.VolumeNamespace)
		} else {
			f.note("repository %s (%s) of namespace %s: cleat's node agents with the data mover %s restore from it and back up "+
				"into it, unless its location is listed above", r.Name, engine, r.Spec.VolumeNamespace,
				velerov1.MoverOf(engine))
		}
	}
	switch public, err := repopassword.PublicIn(ctx, t.Client, t.Namespace, ""); {
	case err != nil:
		return ignoreAbsent(err)
	case public:
		f.note("%s", repopassword.Warning)
	}
	loads, err := t.velerosOpenLoads(ctx)
	if err != nil {
		return err
	}
	moving := map[string]int{}
	for _, l := range loads {
		moving[l.kind]++
	}
	for _, kind := range slices.Sorted(maps.Keys(moving)) {
		f.note("objects of kind %s that have not ended: %d; a take-over lets Velero's node agents end them, for the time of "+
			"--load-timeout, and then cancels them", kind, moving[kind])
	}
	return nil
}

// checkRuns notes what becomes of backups and restores that have begun.
func (t *Takeover) checkRuns(ctx context.Context, f *Findings) error {
	running, err := t.InProgress(ctx)
	if err != nil {
		return err
	}
	slices.Sort(running)
	for _, name := range running {
		f.note("%s is in progress: Velero stops in the middle of it, and cleat takes it up", name)
	}
	return nil
}

// ignoreAbsent returns nil for the error that the cluster does not have a kind.
func ignoreAbsent(err error) error {
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
