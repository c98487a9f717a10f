package backup

import (
	"time"

	"github.com/hashicorp/go-hclog"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
	"github.com/cleat-dev/cleat/server/internal/bucket/dryrun"
	"github.com/cleat-dev/cleat/server/internal/bucket/reference"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
	"github.com/cleat-dev/cleat/server/internal/engine/volumes"
	"github.com/cleat-dev/cleat/server/internal/kube/discovery"
	"github.com/cleat-dev/cleat/server/internal/kube/loadkey"
	"github.com/cleat-dev/cleat/server/internal/spec/resourcepolicy"
	"github.com/cleat-dev/cleat/versioning/backupitemaction"
	"github.com/cleat-dev/cleat/versioning/itemblockaction"
)

// excludeLabel with the value "true" excludes an object, or everything in a namespace, from every backup.
const excludeLabel = "velero.io/exclude-from-backup"

var (
	namespacesResource = schema.GroupResource{Resource: "namespaces"}
	podsResource       = schema.GroupResource{Resource: "pods"}
	volumesResource    = schema.GroupResource{Resource: "persistentvolumes"}
	claimsResource     = schema.GroupResource{Resource: "persistentvolumeclaims"}
	crdsResource       = schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}
)

// Deps are the parts of the server that all backups share.
type Deps struct {
	// Config is the connection to the API server. Its rate limits apply to each run separately.
	Config *rest.Config
	// Discovery has the resources of the API server.
	Discovery *discovery.Helper
	// Keys are the keys with which actions sign loads; nil for none.
	Keys *loadkey.Keys
	// PageSize is the number of objects to request at once; 0 means 500, and a negative number whole lists.
	PageSize int
	// Workers is the number of blocks of objects that are backed up at the same time; 0 means 1. Blocks to which only
	// concurrent actions apply are not counted, see Request.Concurrency.
	Workers int
	// RetryFor is how long requests are repeated while the API server is away or overloaded; 0 means
	// two minutes.
	RetryFor time.Duration
	// CSI enables actions that need the feature EnableCSI.
	CSI bool
	// Roles are those of the actions.
	Roles operation.Roles
	// Uploader is the engine of file system backups of pod volumes.
	Uploader string
	// AllVersions (EnableAPIGroupVersions) backs up each object in all versions in which the API server serves it.
	AllVersions bool
	// References finds what objects refer to, for the manifest.
	References *reference.Table
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Request describes one backup.
type Request struct {
	// Backup is the backup with its spec defaulted and validated. It is read only.
	Backup *velerov1.Backup
	// Actions of plugins, in the order in which they are called.
	Actions []backupitemaction.Action
	// Concurrency is the maximum number of concurrent calls of an action, by its name. Actions with more than one are
	// not limited to the number of workers.
	Concurrency map[string]int
	// BlockActions name the objects that must be backed up together.
	BlockActions []itemblockaction.Action
	// Journal records the operations that actions start; nil records nothing.
	Journal *operation.Journal
	// Followed gets each operation after its start; nil if none is followed yet.
	Followed *operation.Group
	// Manifest, unless nil, receives the items when they are archived.
	Manifest Manifest
	// Sums, unless nil, receives the sums of the items in the archive.
	Sums *archive.Sums
	// Policy is the resource policy to which the spec refers; nil if there is none.
	Policy *resourcepolicy.Policy
	// Snapshots takes the snapshots of persistent volumes; nil takes none.
	Snapshots *volumes.Taker
	// Accepted, unless nil, holds the items to back up, regardless of the current filters.
	Accepted *Accepted
	// DryRun, unless nil, makes the run a dry run: only actions without side effects are called, and there is no
	// archive.
	DryRun *dryrun.Actions
	// Log is the log of the backup.
	Log hclog.Logger
	// Progress, unless nil, is called with the number of objects in the archive and the number known so
	// far, for each object and from several goroutines. The caller throttles.
	Progress func(done, total int)
}
