package pluginhost

import (
	"context"
	"strings"
	"time"
)

// Deadlines bounds how long a plugin may take, by class of call and by kind. Zero takes the default, negative means no
// limit. The caller's own context bounds every call as well.
type Deadlines struct {
	// Start is the time from starting a process until it can be called, Init included. Default 60 s, which is
	// go-plugin's.
	Start time.Duration
	// Query bounds questions that need no work (AppliesTo, ListPlugins, Progress, Cancel, readiness), and the
	// decisions of policies. Default 60 s.
	Query time.Duration
	// Execute bounds calls that work on an item. Plugins block in them for as long as a snapshot takes, and
	// Velero sets no limit at all, so this one only has to catch a plugin that hangs. Default 4 h.
	Execute time.Duration
	// Store bounds the unary calls of object stores and volume snapshotters; listing a large bucket takes
	// minutes. Default 10 min.
	Store time.Duration
	// Idle bounds the time for which the plugin neither takes nor gives the next message of a stream. The time the
	// host takes does not count, and a stream as a whole has no limit. Default 10 min.
	Idle time.Duration
	// Stop is the time a process gets to end by itself before it is killed. Default 2 s.
	Stop time.Duration
	// Probe bounds the question whether a process is alive at all, asked after an overdue or broken call.
	// Default 5 s.
	Probe time.Duration
	// Kinds has another bound for the work of some kinds, by the kind's name whatever its version, e.g.
	// "BackupItemAction". It takes the place of Query, Execute and Store for the calls that do the kind's work
	// (Execute, Start, GetRelatedItems, Decide, Admit, all calls of stores but Init), and of Idle for its
	// streams. Questions keep Query, because every plugin answers them at once.
	Kinds map[string]time.Duration
}

func (d Deadlines) withDefaults() Deadlines {
	d.Start = orDefault(d.Start, time.Minute)
	d.Query = orDefault(d.Query, time.Minute)
	d.Execute = orDefault(d.Execute, 4*time.Hour)
	d.Store = orDefault(d.Store, 10*time.Minute)
	d.Idle = orDefault(d.Idle, 10*time.Minute)
	d.Stop = orDefault(d.Stop, 2*time.Second)
	d.Probe = orDefault(d.Probe, 5*time.Second)
	return d
}

// call is what the host knows about a method before it calls it.
type call struct {
	kind       string // whatever the version, e.g. "BackupItemAction"
	name       string // e.g. "Execute"
	constant   bool   // the answer holds for the life of the process
	idempotent bool   // may be asked again of a restarted process
	work       bool   // an answer proves that the plugin does its job
	alone      bool   // the process is not asked the like at the same time
	limit      time.Duration
	idle       time.Duration // between two messages, when it is a stream
}

// classify is the one list of what the methods of all kinds promise. Idempotent is only what is documented as
// such; an unknown method gets the longest deadline and is never repeated.
func (d Deadlines) classify(method string) call {
	service, name, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	c := call{kind: kindOf(service), name: name, idle: d.Idle}
	switch c.name {
	case "AppliesTo":
		c.constant, c.idempotent, c.limit = true, true, d.Query
	case "ListPlugins", "GetPluginInfo", "Progress", "AreAdditionalItemsReady":
		c.idempotent, c.limit = true, d.Query
	case "Cancel":
		c.limit = d.Query
	case "Decide", "Admit":
		c.idempotent, c.work, c.limit = true, true, d.Query
	case "ObjectExists", "ListObjects", "ListCommonPrefixes", "CreateSignedURL",
		"GetVolumeInfo", "GetVolumeID":
		c.idempotent, c.work, c.limit = true, true, d.Store
	case "DeleteObject", "CreateVolumeFromSnapshot", "CreateSnapshot", "DeleteSnapshot", "SetVolumeID":
		c.work, c.limit = true, d.Store
	case "Init":
		c.limit = d.Store
	case "Start": // its key makes a second one the same as the first
		c.idempotent, c.work, c.limit = true, true, d.Execute
	default:
		c.work, c.limit = true, d.Execute
		// Velero restores one item after the other, and plugins made for it may count on that.
		c.alone = c.name == "Execute" && c.kind == "RestoreItemAction"
	}
	if limit := d.Kinds[c.kind]; limit != 0 && c.work {
		c.limit, c.idle = limit, limit
	}
	return c
}

// deadlineKey is the key of what WithDeadline sets.
type deadlineKey struct{}

// WithDeadline bounds what is called with ctx by limit, instead of by what Deadlines have for it: a call as a whole, a stream
// in the time for which the plugin neither takes nor gives the next message. Negative means no limit. It is for
// plugins that have a deadline of their own.
func WithDeadline(ctx context.Context, limit time.Duration) context.Context {
	return context.WithValue(ctx, deadlineKey{}, limit)
}

// within is the call with the limit that ctx sets for it.
func (c call) within(ctx context.Context) call {
	if limit, ok := ctx.Value(deadlineKey{}).(time.Duration); ok {
		c.limit, c.idle = limit, limit
	}
	return c
}

// kindOf is the kind that a gRPC service belongs to: "generated.BackupItemAction" is a BackupItemAction, and so is any
// other version of it; "cleat.queueadmission.v1.QueueAdmissionService" is a QueueAdmission.
func kindOf(service string) string {
	return strings.TrimSuffix(service[strings.LastIndexByte(service, '.')+1:], "Service")
}
