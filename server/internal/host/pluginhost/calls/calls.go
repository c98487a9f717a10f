package calls

import (
	"strings"
	"time"

	"github.com/cleat-dev/cleat/versioning"
)

// Call is one call of a method, with the limits that hold for it.
type Call struct {
	versioning.Call
	Kind  string        // whatever the version, e.g. "BackupItemAction"
	Name  string        // e.g. "Execute"
	Limit time.Duration // of a unary call; negative means none
	Idle  time.Duration // between two messages of a stream; negative means no limit
}

// Table holds the declarations of the versions of kinds about their methods.
type Table struct {
	deadlines Deadlines
	declared  map[string]declaration // by full method
}

type declaration struct {
	versioning.Call
	kind string
}

// NewTable returns the table of the known versions.
func NewTable(deadlines Deadlines, known []versioning.WireKind) *Table {
	t := &Table{deadlines: deadlines.withDefaults(), declared: map[string]declaration{}}
	for method, call := range versioning.DescribeCalls() {
		t.declared[method] = declaration{call, kindOf(method)}
	}
	for _, version := range known {
		for method, call := range version.Calls {
			t.declared[method] = declaration{call, version.Kind}
		}
	}
	return t
}

// Deadlines returns the deadlines, with their defaults.
func (t *Table) Deadlines() Deadlines { return t.deadlines }

// Call returns the declaration of a method, by its full name. A method that is not declared has the longest deadline
// and is never repeated.
func (t *Table) Call(method string) Call {
	found, ok := t.declared[method]
	if !ok {
		found.kind = kindOf(method)
	}
	c := Call{Call: found.Call, Kind: found.kind, Name: method[strings.LastIndexByte(method, '/')+1:], Idle: transfer}
	switch c.Class {
	case versioning.Query, versioning.Decision:
		c.Limit = t.deadlines.Query
	case versioning.Transfer:
		c.Limit = transfer
	default:
		c.Limit = t.deadlines.Execute
	}
	if c.Silence > 0 {
		c.Limit, c.Idle = c.Silence, c.Silence
	}
	if limit := t.deadlines.Kinds[c.Kind]; limit != 0 && c.Works() {
		c.Limit, c.Idle = limit, limit
	}
	return c
}

// kindOf returns the kind in the name of a method's service: BackupItemAction for
// "/generated.BackupItemAction/Execute", and QueueAdmission for
// "/cleat.queueadmission.v1.QueueAdmissionService/Decide".
func kindOf(method string) string {
	service, _, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	return strings.TrimSuffix(service[strings.LastIndexByte(service, '.')+1:], "Service")
}
