package console

import (
	"context"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	velerov2alpha1 "github.com/cleat-dev/cleat/framework/api/velero/v2alpha1"
	"github.com/cleat-dev/cleat/server/cli/status"
	"github.com/cleat-dev/cleat/server/internal/console"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
)

// The kinds of loads.
var (
	podBackupKind = console.Kind{Name: "podvolumebackups", Slim: withoutConfiguration,
		NewList: func() client.ObjectList { return &velerov1.PodVolumeBackupList{} }}
	podRestoreKind = console.Kind{Name: "podvolumerestores", Slim: withoutConfiguration,
		NewList: func() client.ObjectList { return &velerov1.PodVolumeRestoreList{} }}
	uploadKind = console.Kind{Name: "datauploads", Slim: withoutConfiguration,
		NewList: func() client.ObjectList { return &velerov2alpha1.DataUploadList{} }}
	downloadKind = console.Kind{Name: "datadownloads", Slim: withoutConfiguration,
		NewList: func() client.ObjectList { return &velerov2alpha1.DataDownloadList{} }}
)

// loadsDocument has the loads of volumes that have not ended.
type loadsDocument struct {
	APIVersion string             `json:"apiVersion"`
	Kind       string             `json:"kind"` // LoadList
	PodVolumes []status.PodVolume `json:"podVolumes"`
	Movements  []status.Movement  `json:"dataMovements"`
	Problems   []string           `json:"problems,omitempty"`

	Table layout.Table `json:"-"`
	More  int          `json:"-"` // loads that the page does not list
}

// mostLoads is the number of loads that the page lists.
const mostLoads = 200

// loadsAgain is the time after which an open page shows other times left.
const loadsAgain = 5 * time.Second

func loadsPage() console.Page {
	return console.Page{Path: "/loads", Nav: "Loads", Title: "Loads of volumes", Template: "loads.html",
		Document: func(_ context.Context, l *console.Look) (any, error) {
			l.Again(loadsAgain)
			podBackups, noPodBackups := console.List[*velerov1.PodVolumeBackup](l, podBackupKind)
			podRestores, noPodRestores := console.List[*velerov1.PodVolumeRestore](l, podRestoreKind)
			uploads, noUploads := console.List[*velerov2alpha1.DataUpload](l, uploadKind)
			downloads, noDownloads := console.List[*velerov2alpha1.DataDownload](l, downloadKind)
			doc := &loadsDocument{APIVersion: status.APIVersion, Kind: "LoadList",
				PodVolumes: slices.Concat([]status.PodVolume{}, status.PodVolumesOfBackup(values(podBackups)),
					status.PodVolumesOfRestore(values(podRestores))),
				Movements: slices.Concat([]status.Movement{}, status.MovementsOfBackup(values(uploads)),
					status.MovementsOfRestore(values(downloads))),
				Problems: problems(noPodBackups, noPodRestores, noUploads, noDownloads)}
			doc.PodVolumes = slices.DeleteFunc(doc.PodVolumes, func(v status.PodVolume) bool { return v.Phase.Terminal() })
			doc.Movements = slices.DeleteFunc(doc.Movements, func(m status.Movement) bool { return m.Phase.Terminal() })
			doc.PodVolumes, doc.Movements = status.WithPaces(doc.PodVolumes, doc.Movements, pacesOf(l), l.Now)
			doc.Table = status.LoadTable(doc.PodVolumes, doc.Movements)
			if doc.More = len(doc.Table.Rows) - mostLoads; doc.More > 0 {
				doc.Table.Rows = doc.Table.Rows[:mostLoads]
			}
			return doc, nil
		}}
}
