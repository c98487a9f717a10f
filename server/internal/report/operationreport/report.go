package operationreport

import (
	"slices"
	"time"

	"github.com/cleat-dev/cleat/server/internal/engine/operation"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
)

// OfMonitor returns the report on the operations that a monitor follows, of the owners with the given keys or, without
// keys, of all.
func OfMonitor(monitor *operation.Monitor, keys []string, now time.Time) *serverreport.Operations {
	var owners []serverreport.OperationsOf
	for _, group := range monitor.Groups() {
		owner := group.Owner()
		if len(keys) > 0 && !slices.Contains(keys, serverreport.OwnerKey(owner.Kind, owner.Name)) {
			continue
		}
		all := group.Followed()
		if len(all) == 0 {
			continue
		}
		rows := make([]serverreport.Operation, len(all))
		for i := range all {
			rows[i] = row(&all[i].Operation)
			rows[i].Cancelled, rows[i].Trouble = all[i].Cancelled, all[i].Trouble
		}
		owners = append(owners, serverreport.OperationsOf{Kind: owner.Kind, Name: owner.Name, UID: owner.UID,
			Operations: rows})
	}
	return serverreport.NewOperations(now, owners)
}

// OfFile returns the report of the operations of owner in a file. Problem has the mistakes in the file.
func OfFile(owner *operation.Owner, file operation.File) serverreport.OperationsOf {
	of := serverreport.OperationsOf{Kind: owner.Kind, Name: owner.Name, UID: owner.UID}
	all, err := file.Operations(owner)
	if err != nil {
		of.Problem = err.Error()
	}
	for i := range all {
		of.Operations = append(of.Operations, row(&all[i]))
	}
	return of
}

func row(o *operation.Operation) serverreport.Operation {
	row := serverreport.Operation{
		Plugin: o.Action, ID: o.ID, Resource: o.Item.GroupResource(), Namespace: o.Item.Namespace, Name: o.Item.Name,
		Phase: string(o.Phase), Done: o.NCompleted, Total: o.NTotal, Units: o.Units, Description: o.Description,
		Created: encodable(o.Created), Started: encodable(o.Started), Updated: encodable(o.Updated), Error: o.Error,
	}
	if o.Phase == operation.Failed {
		row.LastLines = o.LastLines
	}
	return row
}

// encodable returns t, and the zero time for one that has no form in JSON, as a damaged file may contain it.
func encodable(t time.Time) time.Time {
	if y := t.UTC().Year(); y < 0 || y > 9999 {
		return time.Time{}
	}
	return t
}
