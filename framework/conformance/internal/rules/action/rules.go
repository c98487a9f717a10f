// Package action has the rules of item actions of all kinds and versions. Start reading at action.go, which calls an
// action and remembers its answers.
package action

import (
	biav1 "github.com/cleat-dev/cleat/framework/backupitemaction/v1"
	biav2 "github.com/cleat-dev/cleat/framework/backupitemaction/v2"
	"github.com/cleat-dev/cleat/framework/conformance/internal/suite"
	"github.com/cleat-dev/cleat/framework/conformance/internal/wire"
	ibav1 "github.com/cleat-dev/cleat/framework/itemblockaction/v1"
	riav1 "github.com/cleat-dev/cleat/framework/restoreitemaction/v1"
	riav2 "github.com/cleat-dev/cleat/framework/restoreitemaction/v2"
)

// Rules returns the rules of all actions.
func Rules() []suite.Rule {
	every := wire.KindsWhere(func(wire.ActionKind) bool { return true })
	answering := wire.KindsWhere(func(k wire.ActionKind) bool { return k.Answers })
	return []suite.Rule{
		{
			ID: "action-applies-to", Kinds: every, Check: with(checkAppliesTo),
			Text: "AppliesTo answers the same each time: a host asks once per process and keeps the answer. (It is skipped if " +
				"it needs a cluster and none is given.)",
		},
		{
			ID: "action-selector", Kinds: every, Check: with(checkSelector),
			Text: "The label selector in the answer of AppliesTo is valid. An invalid one fails every backup or restore.",
		},
		{
			ID: "action-item", Kinds: every, Check: with(checkItem),
			Text: "The action answers about each item that AppliesTo selects, or returns an error that says what is wrong. It " +
				"does not panic, hang, or exit.",
		},
		{
			ID: "action-reply-item", Kinds: answering, Check: with(checkReplyItem),
			Text: "The item in the answer is the JSON of an object with apiVersion, kind and name. In a backup it is the " +
				"object of the request, " +
				"by group, kind, namespace and name. An action that changes nothing answers the bytes of the request.",
		},
		{
			ID: "action-reply-identifiers", Kinds: every, Check: with(checkIdentifiers),
			Text: "Each additional, related or post-operation item names a resource and an object, and none of its parts can " +
				"be taken for a path.",
		},
		{
			ID: "action-resource-names", Kinds: every, Check: with(checkResourceNames),
			Text: `The items of an answer name resources as the API does, by the plural: "pods". The kind, "Pod", and the singular are other names.`,
		},
		{
			ID: "action-same-answer", Should: true, Check: with(checkSameAnswer),
			Kinds: []string{biav1.Kind().Wire, biav2.Kind().Wire, riav1.Kind().Wire, riav2.Kind().Wire, ibav1.Kind().Wire},
			Text:  "A second call about the same item has the same answer, except for operations.",
		},
		{
			ID: "action-owner-bare", Kinds: every, Check: with(checkBareOwner),
			Text: "apiVersion and kind may be missing in the Backup or Restore.",
		},
		{
			ID: "action-json-unknown", Kinds: every, Check: with(checkUnknownJSON),
			Text: "Fields that the plugin does not know are not an error, neither in the item nor in the Backup or Restore.",
		},
		{
			ID: "action-json-kept", Kinds: answering, Should: true, Check: with(checkJSONKept),
			Text: "The answer keeps fields of the item that the plugin does not know, and integers of up to 64 bits. What is " +
				"lost here is missing in the backup.",
		},
		{
			ID: "action-wire-unknown", Kinds: every, Check: with(checkUnknownWire),
			Text: "A request may have fields that the plugin does not know.",
		},
		{
			ID: "action-request-empty", Kinds: every, Check: with(checkEmptyRequest),
			Text: "A request without an item, without a Backup or Restore, or with an empty one, gets an error or changes " +
				"nothing. The process does not exit.",
		},
		{
			ID: "action-request-garbage", Kinds: every, Check: with(checkGarbage),
			Text: "An item that is not a JSON object gets an error or is answered unchanged. The process does not exit.",
		},
		{
			ID: "action-large-item", Kinds: every, Check: with(checkLargeItem),
			Text: "An item of 2 MiB gets the same answer as a small one.",
		},
		{
			ID: "action-large-request", Kinds: every, Check: with(checkLargeRequest),
			Text: "A plugin that has PluginInfo accepts requests of more than 4 MiB, because item and Backup are sent in one " +
				"message. (Plugins built for stock Velero need not.)",
		},
		{
			ID: "action-concurrent", Kinds: every, Check: with(checkConcurrent),
			Text: "32 concurrent calls for different items are answered like sequential ones, and no answer has parts of " +
				"another.",
		},
		{
			ID: "action-own-answer", Kinds: every, Check: with(checkOwnAnswer),
			Text: "Of hundreds of different items, 64 at a time, no name, namespace, label or annotation of one is in the " +
				"answer to another.",
		},
		{
			ID: "action-runs-apart", Kinds: every, Check: with(checkRunsApart),
			Text: "The answer about an item does not depend on calls for another Backup or Restore that the process has " +
				"served. (It is skipped if a host starts a process for each run: without PluginInfo, or with WithProcessPerRun.)",
		},
		{
			ID: "action-cancelled", Kinds: every, Check: with(checkCancelled),
			Text: "Calls that the host cancels do no harm: the next call is answered.",
		},
	}
}
