package status

import (
	"io"
	"testing"

	"github.com/cleat-dev/cleat/server/cli/status/statustest"
	"github.com/cleat-dev/cleat/server/internal/bucket/outcome"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
)

func TestExplainRestore(t *testing.T) {
	t.Parallel()
	account := outcome.Ref{Resource: "serviceaccounts", Namespace: "shop", Name: "app"}
	secret := outcome.Ref{Resource: "secrets", Namespace: "shop", Name: "key"}
	pod := outcome.Item{
		Resource: "pods", APIVersion: "v1", Kind: "Pod", Namespace: "shop-copy", From: "shop", Name: "web",
		Outcome: outcome.Created, Reason: "pods/shop-copy/web was restored without its status: a\nlong answer",
		Incomplete: true, Wave: 7, Needs: []outcome.Need{{Ref: account, Strict: true}, {Ref: secret}}, MoreNeeds: 3,
		HeldUp:   4.25,
		HeldUpBy: &account, Refusals: 2,
		Waits: []outcome.Wait{{For: "secrets/shop/key to be ready before pods/shop-copy/web", Because: "no answer",
			Seconds: 61}},
	}
	needs := []outcome.Item{
		{Resource: "serviceaccounts", Namespace: "shop-copy", From: "shop", Name: "app", Outcome: outcome.Created},
		{Resource: "secrets", Namespace: "shop-copy", From: "shop", Name: "key", Outcome: outcome.Refused, Reason: "quota"},
	}
	statustest.Golden(t, "restore_explain.txt", (&RestoreExplanation{Restore: "r", Item: pod, Needs: needs}).Print)
	pod.Outcome, pod.Reason, pod.Incomplete, pod.HeldUpBy = outcome.Waiting, "it needs secrets/shop/key", false, nil
	pod.Needs[1].Missing, pod.Waits[0].Open = true, true
	statustest.Golden(t, "restore_explain_live.txt", (&RestoreExplanation{Restore: "r", Live: true, Item: pod}).Print)
	statustest.Golden(t, "restore_explain_left_out.txt", (&RestoreExplanation{Restore: "r", Item: outcome.Item{
		Resource: "secrets", Namespace: "other", Items: 120, Outcome: outcome.LeftOut,
		Reason: "excludedNamespaces excludes other"}}).Print)
}

func TestOrderOfRestore(t *testing.T) {
	t.Parallel()
	web := outcome.Ref{Resource: "pods", Namespace: "shop", Name: "web"}
	plan := &outcome.Plan{
		Waves: []outcome.Wave{
			{Resources: []outcome.Count{{Resource: "namespaces", Items: 2}}, Done: 2},
			{Resources: []outcome.Count{{Resource: "runtimeclasses.node.k8s.io", Items: 1}, {Resource: "secrets", Items: 40}},
				Done: 12},
			{Resources: []outcome.Count{{Resource: "pods", Items: 9}}},
		},
		Needs: []outcome.Pair{{Resource: "pods", Needs: "secrets", Items: 8},
			{Resource: "pods", Needs: "runtimeclasses.node.k8s.io", Items: 1, Strict: true}},
		Cycles: []outcome.Cycle{{Items: 2, Broken: []outcome.Broken{{Item: web, Before: outcome.Ref{Resource: "secrets",
			Namespace: "shop", Name: "key"}}}}}, MoreCycles: 3,
		Missing: []outcome.Missing{{Ref: outcome.Ref{Resource: "storageclasses.storage.k8s.io", Name: "fast"}, LeftOut: true,
			Items: 1, Needer: web}, {Ref: outcome.Ref{Resource: "secrets", Namespace: "shop", Name: "gone"}, Items: 4,
			Needer: web}},
		MoreMissing: 1,
	}
	for name, all := range map[string]bool{"restore_order.txt": true, "restore_order_live.txt": false} {
		statustest.Golden(t, name, func(w io.Writer) error {
			d := layout.NewDescription(w)
			PrintOrder(d, plan, all)
			d.Gap()
			d.Line("%s", OrderProgress(plan))
			return d.Err()
		})
	}
}
