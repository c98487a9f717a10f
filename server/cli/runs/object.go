package runs

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/status"
)

// Object is a Backup or a Restore.
type Object struct {
	client.Object
	resource schema.GroupResource
	list     client.ObjectList
	state    func() status.Run
	assign   func(newest runtime.Object) error
}

// Backup returns b as an Object.
func Backup(b *velerov1.Backup) *Object {
	return newObject(b, "backups", &velerov1.BackupList{}, func() status.Run { return status.BackupRun(b) })
}

// Restore returns r as an Object.
func Restore(r *velerov1.Restore) *Object {
	return newObject(r, "restores", &velerov1.RestoreList{}, func() status.Run { return status.RestoreRun(r) })
}

func newObject[T any, P interface {
	*T
	client.Object
}](object P, resource string, list client.ObjectList, state func() status.Run) *Object {
	return &Object{
		Object: object, resource: velerov1.Resource(resource), list: list, state: state,
		assign: func(newest runtime.Object) error {
			from, ok := newest.(P)
			if !ok {
				return fmt.Errorf("a watch of %T brought a %T", object, newest)
			}
			*object = *from
			return nil
		},
	}
}
