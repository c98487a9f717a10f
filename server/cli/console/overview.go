package console

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/runs"
	"github.com/cleat-dev/cleat/server/cli/status"
	"github.com/cleat-dev/cleat/server/internal/console"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
)

// protectedFor is the age up to which a backup protects, unless a page is asked for another one.
const protectedFor = 24 * time.Hour

func overviewPage() console.Page {
	return console.Page{Path: "/{$}", Nav: "Overview", Title: "Overview", Template: "overview.html",
		Document: func(_ context.Context, l *console.Look) (any, error) { return overview(l) }}
}

// mostNamespaces is the number of namespaces that the page shows. The document has all of them.
const mostNamespaces = 300

// mostVolumes is the number of volumes that the page shows. The document has all of them.
const mostVolumes = 100

// overviewDocument is the overview, with what the page shows of it.
type overviewDocument struct {
	*status.Overview
	Shown    []status.Protection `json:"-"`
	NotShown int                 `json:"-"`

	VolumeTable layout.Table `json:"-"`
	MoreVolumes int          `json:"-"` // volumes that the page does not list
}

func overview(l *console.Look) (*overviewDocument, error) {
	since := protectedFor
	if text := l.Value("since"); text != "" {
		var err error
		if since, err = time.ParseDuration(text); err != nil || since <= 0 {
			return nil, console.Wrong{Text: fmt.Sprintf("since=%q: want a duration such as 24h", text)}
		}
	}
	of := status.OverviewOf{Namespace: l.Namespace, Since: since}
	namespaces, noNamespaces := console.List[*corev1.Namespace](l, namespaceKind)
	for _, namespace := range namespaces {
		of.Namespaces = append(of.Namespaces, namespace.Name)
	}
	claims, noClaims := console.List[*corev1.PersistentVolumeClaim](l, claimKind)
	for _, claim := range claims {
		of.AddClaim(claim)
	}
	var noBackups, noSchedules, noLocations error
	of.Backups, noBackups = console.List[*velerov1.Backup](l, backupKind)
	of.Schedules, noSchedules = console.List[*velerov1.Schedule](l, scheduleKind)
	of.Locations, noLocations = console.List[*velerov1.BackupStorageLocation](l, locationKind)
	if noBackups != nil && len(of.Backups) == 0 {
		of.Namespaces = nil // nobody may say that they are not protected
	}
	doc := status.NewOverview(of, l.Now)
	doc.Problems = problems(noNamespaces, noClaims, noBackups, noSchedules, noLocations)
	if noClaims == nil && noBackups == nil {
		doc.Volumes = volumesOf(l, of)
	}
	server, answered := askServer(l)
	switch {
	case !answered:
		doc.Problems = append(doc.Problems, notAnswered)
	case server.Queue.Problem != "":
		doc.Problems = append(doc.Problems, "the server was asked about its policies and plugins: "+server.Queue.Problem)
	default:
		doc.AddServer(server.Policies, server.Plugins)
		doc.AddKeys(server.Keys)
	}
	shown := doc.Namespaces[:min(mostNamespaces, len(doc.Namespaces))]
	page := &overviewDocument{Overview: doc, Shown: shown, NotShown: len(doc.Namespaces) - len(shown)}
	if v := doc.Volumes; v != nil {
		items := v.Items[:min(mostVolumes, len(v.Items))]
		page.VolumeTable, page.MoreVolumes = status.VolumeTable(items, l.Now), len(v.Items)-len(items)
	}
	return page, nil
}

// volumesRead are what backups have of volumes, by the UIDs of the backups.
type volumesRead struct {
	mu    sync.Mutex
	found map[types.UID]status.BackupVolumes
}

// readAgain is the time after which files about volumes that could not be read are read again.
const readAgain = 5 * time.Minute

// volumesOf returns which volumes have no backup. The files of backups about their volumes are read once, in the
// background: those of a backup that has ended do not change.
func volumesOf(l *console.Look, of status.OverviewOf) *status.VolumeOverview {
	asked, more := status.BackupsToAsk(of, l.Now)
	read := console.Keep(l, "volumes", func() *volumesRead {
		return &volumesRead{found: map[types.UID]status.BackupVolumes{}}
	})
	read.mu.Lock()
	found := map[types.UID]status.BackupVolumes{}
	var missing []*velerov1.Backup
	key := "volumes"
	for _, b := range asked {
		volumes, known := read.found[b.UID]
		if known {
			found[b.UID] = volumes
			continue
		}
		missing = append(missing, b)
		key += "/" + string(b.UID)
	}
	read.mu.Unlock()
	if len(missing) > 0 {
		cluster := clusterOf(l)
		now, _ := console.Ask(l, key, readAgain, func(ctx context.Context) map[types.UID]status.BackupVolumes {
			all := runs.NewDownloads(answerWithin).BackupVolumes(ctx, cluster, missing)
			read.mu.Lock()
			defer read.mu.Unlock()
			for uid, volumes := range all {
				if volumes.Problem == "" {
					read.found[uid] = volumes
				}
			}
			return all
		})
		maps.Copy(found, now)
	}
	return status.NewVolumeOverview(of, asked, more, found)
}
