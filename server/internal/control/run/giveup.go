package run

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/kube/shorten"
)

// The reasons why the end of a run waits when a step fails.
const (
	waitsForAnswer  = "the object store to answer"
	waitsForConsent = "the object store to accept the last files"
)

// maxRefusal is the longest text about a failure in an annotation.
const maxRefusal = 1000

// GiveUp reports whether the end of a run, which failed with failure, is not attempted again: the object store answers
// ask, and has refused the end for longer than limit. There is no limit for an object store that does not answer.
//
// GiveUp writes to the object what the run waits for, why, and since when. It does so once for each of the two states,
// so that the limit holds for later servers as well. The messages of an object store differ from attempt to attempt,
// so they are not all written.
func (c *Cluster) GiveUp(
	ctx context.Context, object client.Object, ask func(context.Context) error, failure error, limit time.Duration,
	now time.Time,
) (bool, error) {
	if ctx.Err() != nil {
		return false, nil
	}
	waitsFor := waitsForAnswer
	if answers(ctx, ask) {
		waitsFor = waitsForConsent
	}
	since, err := c.noteWait(ctx, object, waitsFor, failure, now)
	if err != nil {
		return false, fmt.Errorf("write why the run does not end: %w", err)
	}
	return waitsFor == waitsForConsent && now.Sub(since) >= limit, nil
}

func answers(ctx context.Context, ask func(context.Context) error) bool {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	return ask(ctx) == nil
}

// Ask returns a function that asks whether the object store of a location answers.
func (c *Cluster) Ask(stores Stores, name string) func(context.Context) error {
	return func(ctx context.Context) error {
		location, err := c.GetLocation(ctx, name)
		if err != nil {
			return err
		}
		objects, err := stores.Open(ctx, location)
		if err != nil {
			return err
		}
		return objects.Validate(ctx)
	}
}

// Note writes to the object what it waits for and why, unless it is waiting already.
func (c *Cluster) Note(ctx context.Context, object client.Object, waitsFor string, because error, now time.Time) error {
	if _, waits := object.GetAnnotations()[velerov1.WaitsAnnotation]; waits || ctx.Err() != nil || Superseded(because) {
		return nil
	}
	_, err := c.noteWait(ctx, object, waitsFor, because, now)
	return err
}

// Unnote removes what the object waits for, if it waits.
func (c *Cluster) Unnote(ctx context.Context, object client.Object) error {
	if _, waits := object.GetAnnotations()[velerov1.WaitsAnnotation]; !waits {
		return nil
	}
	before, _ := object.DeepCopyObject().(client.Object)
	SetWaits(object, "")
	return client.IgnoreNotFound(c.Patch(ctx, object, client.MergeFrom(before)))
}

// noteWait writes what the object waits for, unless that is recorded already. It returns the start of the wait.
func (c *Cluster) noteWait(
	ctx context.Context, object client.Object, waitsFor string, because error, now time.Time,
) (time.Time, error) {
	noted, err := velerov1.WaitsOf(object)
	if err == nil && noted != nil {
		for _, w := range noted.Oldest {
			if w.For == waitsFor {
				return w.Since.Time, nil
			}
		}
	}
	text, err := json.Marshal(velerov1.Waits{Oldest: []velerov1.Wait{{
		For: waitsFor, Because: shorten.Text(because.Error(), maxRefusal), Since: metav1.NewTime(now.UTC()),
	}}})
	if err != nil {
		return time.Time{}, err
	}
	before, _ := object.DeepCopyObject().(client.Object)
	SetWaits(object, string(text))
	return now, c.Patch(ctx, object, client.MergeFrom(before))
}
