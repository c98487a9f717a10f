package v1

import (
	"context"
	"fmt"
	"time"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/framework/internal/register"
	"github.com/cleat-dev/cleat/framework/internal/wire"
)

// LoadSoothing is the interface that an author implements.
//
// A load is the movement of one volume's data: a DataUpload, DataDownload, PodVolumeBackup or PodVolumeRestore. To
// prepare it, snapshots, volumes and pods are made, which then wait for their turn on a node. Too many of them fill
// nodes and storage without making anything faster; the policy limits their number.
type LoadSoothing interface {
	// Admit decides whether one load that is New may become Accepted.
	//
	// It is a pure function of its input and of the configuration that the policy was made with: the same input has the
	// same output, whichever process is called. It is called for each New load on a node that could take it, again after
	// RetryAfter, and when the counts change. The counts include every load that an agent of cleat has admitted before, on
	// any node, so that no more loads are admitted than the policy wants. Beside agents of Velero they may be a moment
	// old. Calls come concurrently. ctx ends at the node agent's deadline for decisions.
	//
	// An error, a nil output, or one that breaks a rule of AdmitOutput leaves the load New; the node agent reports it and
	// calls again, or lets a built-in policy decide, as it is configured.
	Admit(ctx context.Context, input *AdmitInput) (*AdmitOutput, error)
}

// AdmitInput is one load, and how many others are under way. The policy owns it.
type AdmitInput struct {
	// Now is when the counts were taken. Ages are counted from here, never from the clock.
	Now time.Time
	// Limit is the node agent's prepareQueueLength: how many loads are to be Accepted or Prepared at most; 0 when it is
	// not configured.
	Limit int
	// Load is the one to decide about.
	Load Load
	// Counts are the loads that are under way, by all fields of Count that are not numbers. What is not there is 0.
	Counts []Count
}

// Preparing returns how many loads are Accepted or Prepared, of all kinds and nodes.
func (i *AdmitInput) Preparing() int {
	total := 0
	for _, count := range i.Counts {
		total += count.Accepted + count.Prepared
	}
	return total
}

// PreparingRestores returns how many loads of restores are Accepted or Prepared, on all nodes.
func (i *AdmitInput) PreparingRestores() int {
	total := 0
	for _, count := range i.Counts {
		if restores(count.Kind) {
			total += count.Accepted + count.Prepared
		}
	}
	return total
}

// Load describes one load for a policy.
type Load struct {
	// Kind of its custom resource: "DataUpload".
	Kind string
	// Name of its custom resource.
	Name string
	// Node that it runs on, or would run on; empty when that is not known yet.
	Node string
	// Created is when its custom resource was made.
	Created time.Time
	// Ahead is how many New loads, of all kinds and nodes, are older.
	Ahead int
	// StorageClass is that of the volume; empty when it has none or it is not known.
	StorageClass string
	// Namespace is that of the volume claim or pod.
	Namespace string
	// Bytes is the size of the volume; 0 when it is not known.
	Bytes int64
	// Owner is the name of the Backup or Restore that the load belongs to; empty when there is none.
	Owner string
	// RestoresWaiting is how many New loads of restores, of all nodes, wait beside this one, older or newer. A user waits
	// for a restore, and schedules wait for backups.
	RestoresWaiting int
}

// Restores reports whether the load is one of a restore.
func (l *Load) Restores() bool { return restores(l.Kind) }

func restores(kind string) bool { return kind == "DataDownload" || kind == "PodVolumeRestore" }

// Count is the number of loads under way with the same properties.
type Count struct {
	// Kind is "DataUpload", "DataDownload", "PodVolumeBackup" or "PodVolumeRestore".
	Kind string
	// Node is empty for those whose node is not known yet.
	Node string
	// Accepted are the loads whose snapshots, volumes and pods are being made.
	Accepted int
	// Prepared are the loads that have all they need and wait for their turn.
	Prepared int
	// StorageClass, Namespace and Owner are as in Load.
	StorageClass, Namespace, Owner string
	// Bytes is the size of these volumes, as far as it is known.
	Bytes int64
}

// AdmitOutput is the decision about a load.
type AdmitOutput struct {
	// Admitted is set when the load may become Accepted.
	Admitted bool
	// Reason is why it may not, for people: one line, at most 1024 bytes, never empty then.
	Reason string
	// RetryAfter is when to call again if it may not, at most MaxRetryAfter; zero is the node agent's own interval, 5
	// seconds.
	RetryAfter time.Duration
}

// MaxRetryAfter is the longest time after which the server asks about a load again.
const MaxRetryAfter = time.Hour

// Validate returns an error if the decision breaks a rule, and the server therefore does not accept it.
func (o *AdmitOutput) Validate() error {
	if err := o.ValidateReason(); err != nil {
		return err
	}
	return o.ValidateRetryAfter()
}

// ValidateReason checks that a load that is not admitted has a reason of one line.
func (o *AdmitOutput) ValidateReason() error {
	if o.Admitted {
		return nil
	}
	return wire.Line("reason", o.Reason)
}

// ValidateRetryAfter checks that the next call for a load that is not admitted comes soon enough.
func (o *AdmitOutput) ValidateRetryAfter() error {
	if !o.Admitted && (o.RetryAfter < 0 || o.RetryAfter > MaxRetryAfter) {
		return fmt.Errorf("retry_after is %s, want at most %s", o.RetryAfter, MaxRetryAfter)
	}
	return nil
}

// Register registers the policy that newPolicy makes under name, "example.io/one-per-node". See framework.Setup for
// when newPolicy is called, and framework.WithConfig for policies that users can configure.
func Register(
	name string, newPolicy func(context.Context, *framework.Setup) (LoadSoothing, error), options ...framework.Option,
) framework.Registration {
	return register.New(Kind(), name, newPolicy, options)
}
