package console

import (
	"context"
	"slices"
	"time"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/plugin"
	"github.com/cleat-dev/cleat/server/cli/status"
	"github.com/cleat-dev/cleat/server/cli/status/pluginstatus"
	"github.com/cleat-dev/cleat/server/internal/console"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
)

// operationsDocument is the document of "operations".
type operationsDocument struct {
	status.Operations
	Text  string       `json:"-"`
	Table layout.Table `json:"-"`
}

func operationsPage() console.Page {
	return console.Page{Path: "/operations", Nav: "Operations", Title: "Operations of plugins",
		Template: "operations.html",
		Document: func(_ context.Context, l *console.Look) (any, error) {
			l.Again(2 * time.Second)
			cluster := clusterOf(l)
			doc, answered := console.Ask(l, "operations", time.Second, func(ctx context.Context) *operationsDocument {
				report, err := cluster.Operations(ctx, answerWithin)
				if err != nil {
					return &operationsDocument{Operations: status.NewOperations(cluster.Namespace, &serverreport.Operations{},
						layout.OneLine(err.Error()))}
				}
				return &operationsDocument{Operations: status.NewOperations(cluster.Namespace, report, "")}
			})
			if !answered {
				doc = &operationsDocument{Operations: status.NewOperations(cluster.Namespace, &serverreport.Operations{},
					notAnswered)}
			}
			shown := *doc
			report := doc.Operations.Operations
			shown.Table = status.OperationsTable(report, reportBefore(l, "operations", report))
			return &shown, nil
		}}
}

// schedulesDocument is the list of schedules with their last good backups.
type schedulesDocument struct {
	APIVersion string                 `json:"apiVersion"`
	Kind       string                 `json:"kind"`
	Items      []status.ScheduleState `json:"items"`
	Problems   []string               `json:"problems,omitempty"`
}

// Schedules returns the schedules, as templates call them.
func (d *schedulesDocument) Schedules() []status.ScheduleState { return d.Items }

func schedulesPage() console.Page {
	return console.Page{Path: "/schedules", Nav: "Schedules", Title: "Schedules", Template: "schedules.html",
		Document: func(_ context.Context, l *console.Look) (any, error) {
			backups, noBackups := console.List[*velerov1.Backup](l, backupKind)
			schedules, noSchedules := console.List[*velerov1.Schedule](l, scheduleKind)
			all := status.NewOverview(status.OverviewOf{Backups: backups, Schedules: schedules}, l.Now)
			return &schedulesDocument{APIVersion: status.APIVersion, Kind: "ScheduleStateList", Items: all.Schedules,
				Problems: problems(noBackups, noSchedules)}, nil
		}}
}

// scheduleDocument is a schedule and its backups.
type scheduleDocument struct {
	*velerov1.Schedule
	State   status.ScheduleState `json:"state"`
	Backups int                  `json:"backups"`

	Text     string       `json:"-"`
	Table    layout.Table `json:"-"` // the last backups
	Problems []string     `json:"problems,omitempty"`
}

// lastBackups is the number of backups that the page of a schedule lists.
const lastBackups = 20

func schedulePage() console.Page {
	return console.Page{Path: "/schedules/{name}", Title: "Schedule {name}", Template: "schedule.html",
		Document: func(ctx context.Context, l *console.Look) (any, error) {
			var s velerov1.Schedule
			if err := get(ctx, clusterOf(l), "schedule", l.Request.PathValue("name"), &s); err != nil {
				return nil, err
			}
			console.Watch(l, scheduleKind)
			backups, err := console.List[*velerov1.Backup](l, backupKind)
			backups = slices.DeleteFunc(backups, func(b *velerov1.Backup) bool {
				return b.Labels[velerov1.ScheduleNameLabel] != velerov1.ValidLabelValue(s.Name)
			})
			slices.SortFunc(backups, func(a, b *velerov1.Backup) int { // the newest first
				return b.CreationTimestamp.Compare(a.CreationTimestamp.Time)
			})
			doc := &scheduleDocument{Schedule: &s, Backups: len(backups), Problems: problems(err)}
			doc.State = status.NewOverview(status.OverviewOf{Backups: backups, Schedules: []*velerov1.Schedule{&s}},
				l.Now).Schedules[0]
			doc.Table = status.BackupTable(values(backups[:min(lastBackups, len(backups))]), l.Now)
			doc.Text, err = printed(func(w writer) error { return status.DescribeSchedule(w, &s) })
			return doc, err
		}}
}

// locationsDocument has what "backup-location get" and "snapshot-location get" print.
type locationsDocument struct {
	APIVersion string                             `json:"apiVersion"`
	Kind       string                             `json:"kind"`
	Items      []*velerov1.BackupStorageLocation  `json:"items"`
	Snapshots  []*velerov1.VolumeSnapshotLocation `json:"snapshotLocations"`
	Problems   []string                           `json:"problems,omitempty"`

	Table, SnapshotTable layout.Table `json:"-"`
	Messages             []string     `json:"-"`
}

func locationsPage() console.Page {
	return console.Page{Path: "/locations", Nav: "Locations", Title: "Locations", Template: "locations.html",
		Document: func(_ context.Context, l *console.Look) (any, error) {
			locations, noLocations := console.List[*velerov1.BackupStorageLocation](l, locationKind)
			snapshots, noSnapshots := console.List[*velerov1.VolumeSnapshotLocation](l, snapshotLocationKind)
			doc := &locationsDocument{APIVersion: status.APIVersion, Kind: "List", Items: locations, Snapshots: snapshots,
				Table:         status.LocationTable(values(locations), l.Now),
				SnapshotTable: status.SnapshotLocationTable(values(snapshots), l.Now),
				Problems:      problems(noLocations, noSnapshots)}
			for _, location := range locations {
				if location.Status.Message != "" {
					doc.Messages = append(doc.Messages, location.Name+": "+layout.OneLine(location.Status.Message))
				}
			}
			return doc, nil
		}}
}

// pluginsDocument is the document of "plugin get".
type pluginsDocument struct {
	pluginstatus.List
	Version  string   `json:"serverVersion,omitempty"`
	Problems []string `json:"problems,omitempty"`

	Table, PolicyTable layout.Table `json:"-"`
	Text               string       `json:"-"` // about those that are quarantined
}

func pluginsPage() console.Page {
	return console.Page{Path: "/plugins", Nav: "Plugins", Title: "Plugins", Template: "plugins.html",
		Document: func(_ context.Context, l *console.Look) (any, error) {
			server, answered := askServer(l)
			doc := &pluginsDocument{List: pluginstatus.NewList(&serverreport.PluginReport{}, []serverreport.Plugin{})}
			switch {
			case !answered:
				doc.Problems = []string{notAnswered}
			case server.Plugins == nil:
				doc.Problems = []string{server.Queue.Problem}
			}
			if server == nil || server.Plugins == nil {
				return doc, nil
			}
			plugins := slices.Clone(server.Plugins.Plugins)
			slices.SortStableFunc(plugins, pluginstatus.CompareForList)
			doc.List, doc.Version = pluginstatus.NewList(server.Plugins, plugins), server.Version
			doc.Policies = server.Policies
			doc.Table, doc.PolicyTable = pluginstatus.Table(plugins, true), status.PolicyTable(server.Policies, l.Now)
			var err error
			doc.Text, err = printed(func(w writer) error {
				d := layout.NewDescription(w)
				pluginstatus.PrintQuarantined(d, plugins)
				return d.Err()
			})
			return doc, err
		}}
}

// pluginDocument is the document of "plugin info".
type pluginDocument struct {
	pluginstatus.List
	Problems []string `json:"problems,omitempty"`

	Name string `json:"-"`
	Text string `json:"-"`
}

func pluginPage() console.Page {
	return console.Page{Path: "/plugins/{name...}", Title: "Plugin {name...}", Template: "plugin.html",
		Document: func(_ context.Context, l *console.Look) (any, error) {
			cluster, name := clusterOf(l), l.Request.PathValue("name")
			type details struct {
				report     *serverreport.PluginReport
				configured *pluginstatus.Configured
				err        error
			}
			found, answered := console.Ask(l, "plugin/"+name, askAgain, func(ctx context.Context) details {
				request, err := cluster.ServerStatus(ctx, answerWithin,
					map[string]string{serverreport.PluginDetailsAnnotation: name})
				if err != nil {
					return details{err: err}
				}
				_ = cluster.Delete(ctx, request) // see askServer
				report, err := plugin.ReportOf(request)
				if err != nil {
					return details{err: err}
				}
				report = report.Only(name)
				return details{report, plugin.Configured(ctx, cluster, report), nil}
			})
			doc := &pluginDocument{List: pluginstatus.NewList(&serverreport.PluginReport{}, []serverreport.Plugin{}), Name: name}
			if !answered {
				doc.Problems = []string{notAnswered}
				return doc, nil
			}
			if found.err != nil {
				doc.Problems = []string{layout.OneLine(found.err.Error())}
				return doc, nil
			}
			report := found.report
			if len(report.Plugins) == 0 {
				return nil, missing("plugin", name)
			}
			doc.List, doc.Configured = pluginstatus.NewList(report, report.Plugins), found.configured
			var err error
			doc.Text, err = printed(func(w writer) error {
				d := layout.NewDescription(w)
				pluginstatus.PrintDetails(d, report)
				found.configured.Print(d)
				return d.Err()
			})
			return doc, err
		}}
}
