// Package loads signs loads that tests and measurements create by hand, like an action.
package loads

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/kube/loadkey"
	"github.com/cleat-dev/cleat/server/internal/kube/signing"
)

// Sign makes loads belong to a Backup or Restore and signs them and their statuses. It creates the Secret with the key
// if no server has created it.
func Sign(ctx context.Context, c client.Client, run client.Object, loads ...client.Object) error {
	kind := "Backup"
	if _, is := run.(*velerov1.Restore); is {
		kind = "Restore"
	}
	key, err := loadkey.New(signing.Open(c, c, run.GetNamespace(), time.Now)).Of(ctx, kind, run.GetUID())
	if err != nil {
		return err
	}
	for _, load := range loads {
		load.SetNamespace(run.GetNamespace())
		load.SetOwnerReferences([]metav1.OwnerReference{velerov1.ControllerRef(kind, run)})
		if err = key.Sign(load); err == nil {
			err = key.SignStatus(load)
		}
		if err != nil {
			return fmt.Errorf("sign %s: %w", load.GetName(), err)
		}
	}
	return nil
}

// Begin makes a Backup or Restore without a server one whose data may be moved. It creates the run unless it has a
// UID.
func Begin(ctx context.Context, c client.Client, run client.Object) error {
	if run.GetUID() == "" {
		if err := c.Create(ctx, run); err != nil {
			return err
		}
	}
	return c.Patch(ctx, run, client.RawPatch("application/merge-patch+json", []byte(`{"status":{"phase":"InProgress"}}`)))
}
