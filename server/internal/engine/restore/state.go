package restore

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
	"github.com/cleat-dev/cleat/server/internal/bucket/outcome"
	"github.com/cleat-dev/cleat/server/internal/engine/itemaction"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
	"github.com/cleat-dev/cleat/server/internal/engine/restore/plan"
	"github.com/cleat-dev/cleat/server/internal/engine/restore/ready"
	"github.com/cleat-dev/cleat/server/internal/engine/restore/volume"
	"github.com/cleat-dev/cleat/server/internal/kube/discovery"
	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
	"github.com/cleat-dev/cleat/server/internal/kube/results"
	"github.com/cleat-dev/cleat/server/internal/spec/enclosure"
	"github.com/cleat-dev/cleat/server/internal/spec/modifiers"
	"github.com/cleat-dev/cleat/versioning/restoreitemaction"
)

// state is the state that the items of a restore share.
type state struct {
	mu          sync.Mutex
	progress    func(done, total int)
	done, total int
	defined     map[schema.GroupResource]bool // custom resources that this restore defined
	redefined   map[schema.GroupResource]bool // custom resources whose existing definition it has changed
	provisioned map[string]bool               // persistent volumes for whose claims new ones are provisioned
	renamed     map[string]string             // persistent volumes that were restored under other names
	undecodable atomic.Int64                  // entries of the archive that are not objects
	reported    map[string]bool               // keys of messages that are already in the results
	gaps        []string
	leftOut     map[schema.GroupResource]int // objects that were not restored because of a server
	keptAsIs    map[schema.GroupResource]int // existing objects that were not updated because the server needs them

	undefined     map[schema.GroupResource]bool // custom resources whose definition others have deleted
	requireStatus map[schema.GroupResource]bool // objects are created with their status
	referring     int                           // objects that refer to namespaces that are mapped
}

func newState(progress func(done, total int)) state {
	if progress == nil {
		progress = func(int, int) {}
	}
	return state{
		progress: progress, defined: map[schema.GroupResource]bool{}, redefined: map[schema.GroupResource]bool{},
		provisioned: map[string]bool{}, renamed: map[string]string{}, reported: map[string]bool{},
		leftOut: map[schema.GroupResource]int{}, keptAsIs: map[schema.GroupResource]int{},
		undefined: map[schema.GroupResource]bool{}, requireStatus: map[schema.GroupResource]bool{},
	}
}

// expect adds n items to the number of known ones.
func (e *engine) expect(n int) {
	e.state.mu.Lock()
	defer e.state.mu.Unlock()
	e.state.total += n
	e.state.progress(e.state.done, e.state.total)
}

// progressed counts a finished item. unexpected is 1 if expect was not called for it.
func (e *engine) progressed(unexpected int) {
	e.state.mu.Lock()
	defer e.state.mu.Unlock()
	e.state.done++
	e.state.total += unexpected
	e.state.progress(e.state.done, e.state.total)
}

// counts returns the number of finished items and the number known so far.
func (e *engine) counts() (done, total int) {
	e.state.mu.Lock()
	defer e.state.mu.Unlock()
	return e.state.done, e.state.total
}

// namespaceFailed reports, once, a namespace whose objects cannot be restored.
func (e *engine) namespaceFailed(source, name string, err error) {
	if e.firstReport("namespace " + name) {
		e.reportNamespace(source, name, outcome.Failed, err.Error())
		e.log.Error("namespace cannot be restored into", "namespace", name, "error", err)
		e.results.RunError(fmt.Sprintf("error restoring namespace %s: %v", name, err))
	}
}

// firstReport reports whether it is called for the first time with this key.
func (e *engine) firstReport(what string) bool {
	e.state.mu.Lock()
	defer e.state.mu.Unlock()
	if e.state.reported[what] {
		return false
	}
	e.state.reported[what] = true
	return true
}

// addDefined records custom resources that the restore has defined. changed is set if the definition existed.
func (e *engine) addDefined(gr schema.GroupResource, changed bool) {
	e.state.mu.Lock()
	defer e.state.mu.Unlock()
	if changed {
		e.state.redefined[gr] = true
	} else {
		e.state.defined[gr] = true
	}
}

func (e *engine) isRedefined(gr schema.GroupResource) bool {
	e.state.mu.Lock()
	defer e.state.mu.Unlock()
	return e.state.redefined[gr]
}

func (e *engine) isDefined(gr schema.GroupResource) bool {
	e.state.mu.Lock()
	defer e.state.mu.Unlock()
	return e.state.defined[gr]
}

// forgetDefined records that others have deleted the definition of custom resources.
func (e *engine) forgetDefined(gr schema.GroupResource) {
	e.state.mu.Lock()
	defer e.state.mu.Unlock()
	delete(e.state.defined, gr)
	e.state.undefined[gr] = true
}

func (e *engine) isUndefinedMeanwhile(gr schema.GroupResource) bool {
	e.state.mu.Lock()
	defer e.state.mu.Unlock()
	return e.state.undefined[gr]
}

func (e *engine) addProvisioned(volume string) {
	e.state.mu.Lock()
	defer e.state.mu.Unlock()
	e.state.provisioned[volume] = true
}

func (e *engine) isProvisioned(volume string) bool {
	e.state.mu.Lock()
	defer e.state.mu.Unlock()
	return e.state.provisioned[volume]
}

// leaveOut counts an object that is not restored because of a server.
func (e *engine) leaveOut(gr schema.GroupResource) {
	e.state.mu.Lock()
	defer e.state.mu.Unlock()
	e.state.leftOut[gr]++
}

// keepAsIs counts an existing object that is not updated because the server that restores depends on it.
func (e *engine) keepAsIs(gr schema.GroupResource) {
	e.state.mu.Lock()
	defer e.state.mu.Unlock()
	e.state.keptAsIs[gr]++
}

// warnOfServer warns, once for all objects, that some were not restored or updated because of a server.
func (e *engine) warnOfServer() {
	if what := countsOf(e.state.leftOut); what != "" {
		e.results.RunWarning("not restored, because a server would act on them again or lives on them: " + what +
			e.restoredByName())
	}
	if what := countsOf(e.state.keptAsIs); what != "" {
		e.results.RunWarning("not updated, because the server that restores needs them as they are in the cluster: " + what)
	}
}

// restoredByName returns a text that names the omitted objects that can be restored.
func (e *engine) restoredByName() string {
	var names []string
	for gr := range e.state.leftOut {
		if plan.RestoredByName(gr) {
			names = append(names, gr.String())
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return "; to restore " + strings.Join(names, " and ") +
		" into the namespace of the server, name them in includedResources"
}

// countsOf returns the counts in the form "2 downloadrequests.velero.io, 1 leases.coordination.k8s.io".
func countsOf(counts map[schema.GroupResource]int) string {
	var words []string
	for gr, n := range counts {
		words = append(words, fmt.Sprintf("%d %s", n, gr))
	}
	slices.SortFunc(words, func(a, b string) int {
		return cmp.Compare(a[strings.IndexByte(a, ' '):], b[strings.IndexByte(b, ' '):])
	})
	return strings.Join(words, ", ")
}

// engine is the state of one run.
type engine struct {
	options      Options
	roles        operation.Roles
	api          *kubeapi.Client
	log          hclog.Logger
	restore      *velerov1.Restore
	restoreJSON  []byte // for plugins
	backupLabel  string
	restoreLabel string
	resumed      bool                                             // see Request.Resumed
	dry          *dryRun                                          // nil for a real restore
	enclose      func(enclosure.Item) (enclosure.Decision, error) // nil for none; see Request.Enclose
	hooks        Hooks                                            // nil if none are run
	archive      *archive.Archive
	selection    *plan.Selection
	actions      *itemaction.Set[restoreitemaction.Action]
	operations   *itemaction.Operations
	modifiers    *modifiers.Rules
	graph        func(wanted func(archive.Entry) bool) iter.Seq2[*manifest.Item, error]
	versions     plan.VersionPriorities
	volumes      volume.Index
	snapshots    Snapshots
	snapshot     atomic.Pointer[discovery.Snapshot]
	tracker      *tracker
	pool         pool
	account      *Account
	schedule     *schedule // from the plan on, before any item is restored
	refusals     refusals
	definitions  definitions
	owners       *owners       // nil if they are not restored
	waiter       *ready.Waiter // for actions
	objects      *ready.Waiter // for objects
	gates        *allowance    // for what is not ready, and for webhooks that fail
	terminating  *allowance    // for what is being deleted
	unready      unready
	services     services
	bindings     bindings
	namespaces   namespaces
	serverParts  map[serverPart]bool // see findServerParts
	results      results.Collector
	state        state
}

// serverPart is an object in the namespace of the server that the server's pod uses.
type serverPart struct {
	resource schema.GroupResource
	name     string
}

// namespaces holds the writable namespaces of the cluster. They are listed once, and added when the restore creates
// them, so that items need no requests for their namespaces.
type namespaces struct {
	mu      sync.Mutex
	states  map[string]*namespaceState
	checked map[string]bool      // checked again because the server has reported them as deleted
	first   map[string]types.UID // UIDs of those that were found or created first
}
