package calls

import (
	"strings"
	"time"
)

// call is what the host knows about a method before it calls it.
type Call struct {
	kind       string // whatever the version, e.g. "BackupItemAction"
	Name       string // e.g. "Execute"
	Constant   bool   // the answer holds for the life of the process
	Idempotent bool   // may be asked again of a restarted process
	Work       bool   // an answer proves that the plugin does its job
	Alone      bool   // the process is not asked the like at the same time
	limit      time.Duration
	Idle       time.Duration // between two messages, when it is a stream
}

// classify is the one list of what the methods of all kinds promise. Idempotent is only what is documented as
// such; an unknown method gets the longest deadline and is never repeated.
func (d Deadlines) Classify(method string) Call {
	service, name, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	c := Call{kind: kindOf(service), Name: name, Idle: d.Idle}
	switch c.Name {
	case "AppliesTo":
		c.Constant, c.Idempotent, c.limit = true, true, d.Query
	case "ListPlugins", "GetPluginInfo", "Progress", "AreAdditionalItemsReady":
		c.Idempotent, c.limit = true, d.Query
	case "Cancel":
		c.limit = d.Query
	case "Decide", "Admit":
		c.Idempotent, c.Work, c.limit = true, true, d.Query
	case "ObjectExists", "ListObjects", "ListCommonPrefixes", "CreateSignedURL",
		"GetVolumeInfo", "GetVolumeID":
		c.Idempotent, c.Work, c.limit = true, true, d.Store
	case "DeleteObject", "CreateVolumeFromSnapshot", "CreateSnapshot", "DeleteSnapshot", "SetVolumeID":
		c.Work, c.limit = true, d.Store
	case "Init":
		c.limit = d.Store
	case "Start": // its key makes a second one the same as the first
		c.Idempotent, c.Work, c.limit = true, true, d.Execute
	default:
		c.Work, c.limit = true, d.Execute
		// Velero restores one item after the other, and plugins made for it may count on that.
		c.Alone = c.Name == "Execute" && c.kind == "RestoreItemAction"
	}
	if limit := d.Kinds[c.kind]; limit != 0 && c.Work {
		c.limit, c.Idle = limit, limit
	}
	return c
}

// kindOf is the kind that a gRPC service belongs to: "generated.BackupItemAction" is a BackupItemAction, and so is any
// other version of it; "cleat.queueadmission.v1.QueueAdmissionService" is a QueueAdmission.
func kindOf(service string) string {
	return strings.TrimSuffix(service[strings.LastIndexByte(service, '.')+1:], "Service")
}
