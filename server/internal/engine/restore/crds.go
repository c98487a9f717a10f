package restore

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
	"github.com/cleat-dev/cleat/server/internal/kube/waits"
)

// waitForCRD returns when the objects of a new custom resource definition are served: it is established and its
// names are accepted. After ResourceTimeout the item gets an error, and the restore continues.
func (r *itemRun) waitForCRD(ctx context.Context, to target) error {
	deadline := time.Now().Add(r.engine.options.ResourceTimeout)
	waiting := waits.Begin(ctx, "%s to be ready, so that its custom resources can be restored", r.id)
	defer waiting.End()
	for pause := firstPause; ; pause = min(2*pause, r.engine.options.PollInterval) {
		reply, err := r.engine.api.Do(ctx, to.read(r.obj.Name, kubeapi.JSON))
		if err != nil {
			if fatal(ctx, err) {
				return err
			}
			return r.fail(fmt.Errorf("error checking whether %s is ready: %w", r.id, err))
		}
		ready, why, err := crdReady(reply.Body)
		if err != nil {
			return r.fail(fmt.Errorf("error checking whether %s is ready: %w", r.id, err))
		}
		if ready {
			// The name of a definition is "<plural>.<group>".
			r.engine.addDefined(schema.ParseGroupResource(r.obj.Name))
			return nil
		}
		waiting.Because(why)
		if time.Now().After(deadline) {
			return r.fail(fmt.Errorf("%s is not ready after %s (%s), so its custom resources cannot be restored",
				r.id, r.engine.options.ResourceTimeout, why))
		}
		if err := r.engine.pause(ctx, pause); err != nil {
			return err
		}
	}
}

// crdReady reads the conditions of a definition. why describes the unmet one.
func crdReady(body []byte) (ready bool, why string, err error) {
	var crd struct {
		Status struct {
			Conditions []struct{ Type, Status, Message string }
		}
	}
	if err := json.Unmarshal(body, &crd); err != nil {
		return false, "", fmt.Errorf("decode its conditions: %w", err)
	}
	missing := map[string]string{"Established": "", "NamesAccepted": ""}
	for _, c := range crd.Status.Conditions {
		if _, wanted := missing[c.Type]; !wanted {
			continue
		}
		if c.Status == "True" {
			delete(missing, c.Type)
		} else {
			missing[c.Type] = c.Message
		}
	}
	for _, condition := range []string{"NamesAccepted", "Established"} {
		if message, ok := missing[condition]; ok {
			why = "condition " + condition + " is not met"
			if message != "" {
				why += ": " + message
			}
			return false, why, nil
		}
	}
	return true, "", nil
}
