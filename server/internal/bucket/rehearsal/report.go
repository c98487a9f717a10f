package rehearsal

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/cleat-dev/cleat/server/internal/kube/foreign"
)

// FileName returns the name of the report of a rehearsal, after the name of the backup and a dash.
func FileName(id string) string { return "rehearsal-" + id + ".json.gz" }

// MaxListed bounds each list of a report. Counts include what is not listed.
const MaxListed = 1000

// Result is the result of a rehearsal.
type Result string

// The results.
const (
	Passed    Result = "Passed"    // all that was tried works
	Failed    Result = "Failed"    // something was not restored, is not ready, or has failed its check
	Cancelled Result = "Cancelled" // by a user, or with the deletion of its Restore
	NotRun    Result = "NotRun"    // it could not begin
	// NotProved is the result of a report of which a reader does not know that a server has made it. It is never stored.
	NotProved Result = "NotProved"
)

// Report is what a rehearsal has found out.
type Report struct {
	Summary
	// Version is that of the format.
	Version   int    `json:"version"`
	Backup    string `json:"backup"`
	BackupUID string `json:"backupUID"`
	// BackupStarted is when the backup began, which is the same in each cluster that has it.
	BackupStarted time.Time `json:"backupStarted,omitzero"`
	Restore       string    `json:"restore"`
	// Namespaces are those of the rehearsal, by the names in the backup.
	Namespaces map[string]string `json:"namespaces,omitempty"`
	Times      Times             `json:"times"`
	// Problems are why the rehearsal has not passed, as far as nothing else of the report says so.
	Problems []string `json:"problems,omitempty"`
	// Kinds compares what came up with the backup.
	Kinds []Kind `json:"kinds,omitempty"`
	// Missing are the items of the backup that could not be restored.
	Missing Items `json:"missing"`
	// NotReady are the workloads that were not ready in time.
	NotReady Items `json:"notReady"`
	// Changed are the items that were restored in another form, so that they act on nothing outside.
	Changed Items `json:"changed"`
	// NotTried are the items that were not restored, or as a dry run only, so that they act on nothing outside.
	NotTried Items   `json:"notTried"`
	Checks   []Check `json:"checks,omitempty"`
	// Limits are those of each namespace.
	Limits map[string]string `json:"limits,omitempty"`
	// Notes are what the rehearsal cannot know.
	Notes []string `json:"notes,omitempty"`

	// Proof is by what a reader has proved the report. Claimed is the result in one that is NotProved. A reader sets both.
	Proof   string `json:"proof,omitempty"`
	Claimed Result `json:"claimed,omitempty"`
}

// Times are how long the parts of a rehearsal took, in seconds.
type Times struct {
	Prepare float64 `json:"prepareSeconds"`
	Restore float64 `json:"restoreSeconds"` // data of volumes included
	// Ready is from the end of the restore until the workloads were ready, or the time was over.
	Ready  float64 `json:"readySeconds"`
	Checks float64 `json:"checksSeconds"`
	// Estimate is how long a real restore takes until the workloads are ready, if it is as fast as this one.
	Estimate float64 `json:"estimatedRestoreSeconds"`
}

// Kind counts the items of a resource.
type Kind struct {
	Resource string `json:"resource"`
	InBackup int    `json:"inBackup"`
	Restored int    `json:"restored"`
	// Existing are items that Kubernetes has made before, such as default service accounts.
	Existing int `json:"existing,omitempty"`
	NotTried int `json:"notTried,omitempty"`
	Missing  int `json:"missing,omitempty"`
}

// Items are the first MaxListed items of something, and the number of all.
type Items struct {
	Count int    `json:"count"`
	Items []Item `json:"items,omitempty"`
}

// Add adds an item.
func (l *Items) Add(one Item) {
	l.Count++
	if len(l.Items) < MaxListed {
		l.Items = append(l.Items, one)
	}
}

// Item is an item of the backup, or an object that has come up. Its namespace is the one in the backup.
type Item struct {
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Reason    string `json:"reason,omitempty"`
}

// String returns "deployments.apps/shop/web".
func (i Item) String() string {
	parts := []string{i.Resource}
	if i.Namespace != "" {
		parts = append(parts, i.Namespace)
	}
	return strings.Join(append(parts, i.Name), "/")
}

// Check is a command that the owner of a pod has set.
type Check struct {
	Namespace string   `json:"namespace"` // in the backup
	Pod       string   `json:"pod"`
	Container string   `json:"container,omitempty"`
	Command   []string `json:"command"`
	Seconds   float64  `json:"seconds"`
	Error     string   `json:"error,omitempty"` // empty for one that has passed
}

// maxReport bounds a report in bytes: each reason may have the message of a webhook.
const maxReport = 64 << 20

// maxValues bounds the values of a report: each list has at most MaxListed items, and checks and kinds are as many as a
// backup has pods and resources.
const maxValues = 1 << 20

// Limits returns the limits of a report.
func Limits() foreign.Limits { return foreign.Limits{Bytes: maxReport, Values: maxValues, Depth: 16} }

// Digest returns the digest by which a cluster knows the file of a report, before it is compressed.
func Digest(file []byte) string {
	sum := sha256.Sum256(file)
	return hex.EncodeToString(sum[:])
}

// Read reads a report, which is not compressed any more. It does not prove it.
func Read(r io.Reader) (*Report, error) {
	report, err := foreign.Decode[Report](r, Limits())
	if err != nil {
		return nil, fmt.Errorf("read the report of a rehearsal: %w", err)
	}
	if report.Version != 1 {
		return nil, fmt.Errorf("the report of a rehearsal has version %d, want 1; it was made by another version of cleat",
			report.Version)
	}
	return &report, nil
}

// Seconds returns a duration as reports have it.
func Seconds(d time.Duration) float64 { return float64(max(0, d).Milliseconds()) / 1000 }
