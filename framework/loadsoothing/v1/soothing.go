package v1

import (
	"context"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/cleat-dev/cleat/framework"
)

// LoadSoothing is the interface that an author implements.
//
// A load is the movement of one volume's data: a DataUpload, DataDownload, PodVolumeBackup or PodVolumeRestore. To
// prepare it makes snapshots, volumes and pods, which then wait for a turn on a node. Too many of them fill nodes
// and storage without anything going faster; the policy keeps that crowd small.
type LoadSoothing interface {
	// Admit says whether one load that is New may become Accepted.
	//
	// It is a pure function of the request: the same request has the same decision, whichever process is asked.
	// It is asked for each New load on every node that could take it, and again after RetryAfter. The counts
	// come from caches and may be a moment old, and nodes do not wait for each other: a few loads more than the
	// policy wants may get through, and that is all right. Calls come concurrently. ctx ends at the node agent's
	// deadline for decisions.
	//
	// An error, no decision at all, or one that breaks a rule of Decision leaves the load New; the node agent
	// says so and asks again, or has a built-in policy decide, as it is configured.
	Admit(ctx context.Context, request *Request) (*Decision, error)
}

// Request is one load, and how many others are on their way. The policy owns it.
type Request struct {
	// Config is what the user configured for the policy: JSON of an object that keeps to its schema. See
	// framework.DecodeConfig.
	Config []byte
	// Now is when the counts were taken. Ages are counted from here, never from the clock.
	Now time.Time
	// Limit is the node agent's prepareQueueLength: how many loads are to be Accepted or Prepared at most; 0 when
	// it is not configured.
	Limit int
	// Load is the one that asks.
	Load Load
	// Counts are the loads that are on their way, by kind and node. What is not there is 0.
	Counts []Count
}

// Preparing is how many loads are Accepted or Prepared, of all kinds and nodes.
func (r *Request) Preparing() int {
	total := 0
	for _, count := range r.Counts {
		total += count.Accepted + count.Prepared
	}
	return total
}

// Load is what a policy may know of one load.
type Load struct {
	// Kind of its custom resource: "DataUpload".
	Kind string
	// Name of its custom resource.
	Name string
	// Node that it runs on, or would; empty when that is not known yet.
	Node string
	// Created is when its custom resource was made.
	Created time.Time
	// Ahead is how many New loads, of all kinds and nodes, are older.
	Ahead int
}

// Count is how many loads of one kind are on their way on one node.
type Count struct {
	// Kind is "DataUpload", "DataDownload", "PodVolumeBackup" or "PodVolumeRestore".
	Kind string
	// Node is empty for those whose node is not known yet.
	Node string
	// Accepted are the loads whose snapshots, volumes and pods are being made.
	Accepted int
	// Prepared are the loads that have all they need and wait for their turn.
	Prepared int
}

// Decision is what a policy answers for a load.
type Decision struct {
	// Admitted tells that the load may become Accepted.
	Admitted bool
	// Reason is why it may not, for people: one line, at most 1024 bytes, never empty then.
	Reason string
	// RetryAfter is when to ask again if it may not, at most an hour; zero is the node agent's own interval, 5
	// seconds.
	RetryAfter time.Duration
}

// Register registers the policy that newPolicy makes under name, "example.io/one-per-node". newPolicy is called at the
// first call for name; its logger writes to the node agent's log. A policy that takes a config says so by
// framework.WithConfigSchema.
func Register(name string, newPolicy func(hclog.Logger) (LoadSoothing, error), options ...framework.Option) framework.Registration {
	return framework.Register(Kind(), name, newPolicy, options...)
}

// Kind is the kind's name on the wire and its gRPC service.
func Kind() framework.Kind[LoadSoothing] {
	return framework.Kind[LoadSoothing]{Wire: "LoadSoothing", Bind: bind}
}
