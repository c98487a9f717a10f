package rehearsals

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/outcome"
	"github.com/cleat-dev/cleat/server/internal/bucket/rehearsal"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/bucket/trust"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/kube/shorten"
	"github.com/cleat-dev/cleat/versioning"
)

// report makes the report of a rehearsal and stores it beside the backup, unless that is done. It returns the summary.
func (r *Controller) report(ctx context.Context, restore *velerov1.Restore, s *state) (rehearsal.Summary, error) {
	objects, backup, err := r.backup(ctx, restore)
	if errors.Is(err, errBackup) {
		objects = nil // for example, it was deleted
	} else if err != nil {
		return rehearsal.Summary{}, err
	}
	var refused error // why the report is not stored
	if objects != nil && s.Report != "" {
		var stored *rehearsal.Report
		if stored, refused = r.stored(ctx, objects, restore, s.Report); stored != nil {
			stored.Digest = s.Report
			return stored.Summary, nil
		}
	}
	made, err := r.compose(ctx, restore, *s, objects)
	if err != nil {
		return rehearsal.Summary{}, err
	}
	if objects == nil {
		return made.Summary, nil
	}
	if refused == nil {
		made.Stored = true
		file, err := r.encode(ctx, restore, backup, s, made)
		if err != nil {
			return rehearsal.Summary{}, err
		}
		refused = objects.PutRehearsal(ctx, restore.Spec.BackupName, made.ID, file)
		made.Digest = s.Report
	}
	if refused == nil {
		return made.Summary, nil
	}
	err = fmt.Errorf("store the report of the rehearsal: %w", refused)
	if errors.Is(err, versioning.ErrExists) {
		err = fmt.Errorf("%w: another report of that id, which this server has not made", err)
	}
	if since := s.since(); !since.IsZero() && r.Now().Sub(since) < r.StoreOutage && !errors.Is(err, versioning.ErrExists) {
		return rehearsal.Summary{}, err
	}
	made.Stored, made.Digest = false, ""
	made.Text += "; its report could not be stored: " + shorten.Text(err.Error(), maxReason)
	return made.Summary, nil
}

// encode returns the file of a report, and notes its digest in the Restore: a report with another one, which somebody has
// put into the bucket, is not taken for that of this rehearsal.
func (r *Controller) encode(
	ctx context.Context, restore *velerov1.Restore, backup *velerov1.Backup, s *state, made *rehearsal.Report,
) ([]byte, error) {
	content, err := json.Marshal(made)
	if err != nil {
		return nil, fmt.Errorf("encode the report of the rehearsal: %w", err)
	}
	file := r.Sign(ctx, backup, content)
	s.Report = rehearsal.Digest(file)
	return file, r.advance(ctx, restore, phaseOf(restore), *s, nil)
}

// since returns when all was found out that the report needs.
func (s *state) since() time.Time {
	for _, t := range []time.Time{s.Settled, s.Restored, s.Prepared, s.Admitted} {
		if !t.IsZero() {
			return t
		}
	}
	return time.Time{}
}

// stored returns the report with a digest if it is stored, or nil.
func (r *Controller) stored(
	ctx context.Context, objects *store.Store, restore *velerov1.Restore, digest string,
) (*rehearsal.Report, error) {
	body, err := objects.Rehearsal(ctx, restore.Spec.BackupName, idOf(restore))
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil //nolint:nilnil // there is none and that is right
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }() // only read from
	report, err := trust.ReadReport(body, trust.ReportOf{Digest: digest}, nil)
	if errors.Is(err, trust.ErrReport) { // of somebody else
		return nil, nil //nolint:nilnil // there is none of this rehearsal
	}
	return report, err
}

// compose finds out what the report has to say.
func (r *Controller) compose(
	ctx context.Context, restore *velerov1.Restore, s state, objects *store.Store,
) (*rehearsal.Report, error) {
	made := &rehearsal.Report{
		Version: 1, Backup: restore.Spec.BackupName, Restore: restore.Name, Namespaces: s.Namespaces, Problems: s.Problems,
		Summary: rehearsal.Summary{ID: idOf(restore), Began: restore.CreationTimestamp.UTC()},
		Limits: map[string]string{"cpu": r.Settings.Limits.CPU, "memory": r.Settings.Limits.Memory,
			"storage": r.Settings.Limits.Storage, "pods": strconv.Itoa(r.Settings.Limits.Pods),
			"network": string(r.Settings.Network), "podSecurity": string(r.Settings.PodSecurity),
			"deadline": r.Settings.Deadline.Std().String()},
	}
	var backup velerov1.Backup
	if err := r.Live.Get(ctx, client.ObjectKey{Namespace: restore.Namespace, Name: restore.Spec.BackupName},
		&backup); err == nil {
		made.BackupUID = string(backup.UID)
		if started := backup.Status.StartTimestamp; started != nil {
			made.BackupStarted = started.UTC()
		}
		if damage := run.Damage(&backup); damage != "" {
			made.Notes = append(made.Notes, damage)
		}
	}
	checksBegan := r.Now()
	if !s.Restored.IsZero() && !s.Cancelled {
		if err := r.compare(ctx, restore, s, objects, made); err != nil {
			return nil, err
		}
		up, err := r.look(ctx, s)
		if err != nil {
			return nil, err
		}
		made.NotReady = up.notReady
		checksBegan = r.Now()
		if !s.Settled.IsZero() {
			if made.Checks, err = r.check(ctx, s, up.pods); err != nil {
				return nil, err
			}
		}
		if s.Server {
			made.Notes = append(made.Notes, "namespace "+r.Namespace+" is that of the server, and was not rehearsed")
		}
		made.Notes = append(made.Notes,
			"NetworkPolicies shut the namespaces in; whether the network of the cluster enforces them was not checked",
			"images were pulled or in the caches of the nodes, and data came from where the backup has it, as at this time")
	}
	made.Ended = r.Now().UTC().Truncate(time.Second)
	made.Times = timesOf(s, checksBegan, r.Now())
	made.Estimate = made.Times.Estimate
	conclude(made, s)
	return made, nil
}

// timesOf returns how long the parts of a rehearsal took.
func timesOf(s state, checks, now time.Time) (t rehearsal.Times) {
	between := func(from, to time.Time) float64 {
		if from.IsZero() || to.IsZero() {
			return 0
		}
		return rehearsal.Seconds(to.Sub(from))
	}
	t.Prepare, t.Restore = between(s.Admitted, s.Prepared), between(s.Prepared, s.Restored)
	t.Ready = between(s.Restored, s.Settled)
	if !s.Settled.IsZero() {
		t.Checks, t.Estimate = between(checks, now), t.Restore+t.Ready
	}
	return t
}

// conclude sets the result of a report.
func conclude(made *rehearsal.Report, s state) {
	failed := 0
	for i := range made.Checks {
		if made.Checks[i].Error != "" {
			failed++
		}
	}
	var texts []string
	for _, part := range []struct {
		count int
		text  string
	}{
		{made.Missing.Count, "%d items could not be restored"}, {made.NotReady.Count, "%d workloads were not ready in time"},
		{failed, "%d of " + strconv.Itoa(len(made.Checks)) + " checks have failed"},
	} {
		if part.count > 0 {
			texts = append(texts, fmt.Sprintf(part.text, part.count))
		}
	}
	for _, problem := range made.Problems {
		texts = append(texts, shorten.Text(problem, maxReason))
	}
	switch {
	case s.Cancelled:
		made.Result, made.Text = rehearsal.Cancelled, "cancelled"
	case s.Prepared.IsZero():
		made.Result, made.Text = rehearsal.NotRun, strings.Join(texts, "; ")
	case len(texts) > 0:
		made.Result, made.Text = rehearsal.Failed, strings.Join(texts, "; ")
	default:
		restored := 0
		for _, kind := range made.Kinds {
			restored += kind.Restored
		}
		made.Result = rehearsal.Passed
		made.Text = fmt.Sprintf("%d items restored, %d checks passed, %d items not tried", restored, len(made.Checks),
			made.NotTried.Count)
	}
	made.Text = shorten.Text(made.Text, 2*maxReason)
}

// compare adds what became of the items of the backup.
func (r *Controller) compare(
	ctx context.Context, restore *velerov1.Restore, s state, objects *store.Store, made *rehearsal.Report,
) error {
	if objects == nil {
		made.Problems = append(made.Problems, "the backup was deleted meanwhile, so what came up is not compared with it")
		return nil
	}
	kinds := map[string]*rehearsal.Kind{}
	noted := store.ParseTally(restore.Annotations[velerov1.ItemsAnnotation])
	err := outcomes(ctx, objects, restore.Name, noted, func(one outcome.Item) error {
		add(made, kinds, one, s)
		return nil
	})
	if errors.Is(err, store.ErrNotFound) {
		made.Problems = append(made.Problems, "the list of what became of the items was not stored")
		return nil
	}
	if errors.Is(err, store.ErrChanged) {
		made.Problems = append(made.Problems, "the list of what became of the items was changed in the bucket")
		return nil
	}
	if err != nil {
		err = fmt.Errorf("read what became of the items of restore %s: %w", restore.Name, err)
		if r.Now().Sub(s.since()) < r.StoreOutage {
			return err
		}
		made.Problems = append(made.Problems, err.Error()) // what was made must not stay because of it
	}
	for _, kind := range kinds {
		made.Kinds = append(made.Kinds, *kind)
	}
	slices.SortFunc(made.Kinds, func(a, b rehearsal.Kind) int { return strings.Compare(a.Resource, b.Resource) })
	return nil
}

// outcomes calls use for what became of each item of a restore.
func outcomes(
	ctx context.Context, objects *store.Store, restore string, noted store.Tally, use func(outcome.Item) error,
) error {
	body, err := objects.RestoreItems(ctx, restore, noted)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }() // only read from
	_, err = outcome.Read(body, use)
	return err
}

// add adds what became of one item.
func add(made *rehearsal.Report, kinds map[string]*rehearsal.Kind, one outcome.Item, s state) {
	if one.Outcome == outcome.LeftOut { // all that no restore has, such as nodes and events
		return
	}
	kind := kinds[one.Resource]
	if kind == nil {
		kind = &rehearsal.Kind{Resource: one.Resource}
		kinds[one.Resource] = kind
	}
	item := rehearsal.Item{Resource: one.Resource, Namespace: one.From, Name: one.Name,
		Reason: shorten.Text(one.Reason, maxReason)}
	if item.Namespace == "" {
		item.Namespace = one.Namespace
	}
	if one.Resource == "namespaces" {
		for source, name := range s.Namespaces {
			if name == one.Name {
				item.Name = source
			}
		}
	}
	kind.InBackup++
	switch one.Outcome {
	case outcome.Created, outcome.Updated:
		kind.Restored++
		switch {
		case one.Incomplete:
			made.Missing.Add(item)
		case one.Reason != "":
			made.Changed.Add(item)
		}
	case outcome.Skipped:
		if one.Reason == "" {
			kind.Existing++
			return
		}
		kind.NotTried++
		made.NotTried.Add(item)
	case outcome.Conflict:
		if one.Namespace == "" { // a cluster-scoped object that the cluster has
			kind.Existing++
			made.NotTried.Add(item)
			return
		}
		kind.Missing++
		made.Missing.Add(item)
	default:
		kind.Missing++
		made.Missing.Add(item)
	}
}
