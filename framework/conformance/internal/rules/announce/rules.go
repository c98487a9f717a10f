// Package announce has the rules of what a process announces: how it starts, what it lists, and whether it serves that.
// Start reading at rules.go.
package announce

import (
	"slices"
	"strings"

	"github.com/cleat-dev/cleat/framework/conformance/internal/suite"
	"github.com/cleat-dev/cleat/framework/conformance/internal/wire"
)

// Rules returns the rules of the process at its start, and of all kinds.
func Rules() []suite.Rule { return slices.Concat(startRules(), announceRules()) }

func announceRules() []suite.Rule {
	whole := []string{suite.Process}
	return []suite.Rule{
		{
			ID: "list-answers", Kinds: whole, Check: checkList,
			Text: "PluginLister answers the same each time: what a process serves is constant.",
		},
		{
			ID: "list-not-empty", Kinds: whole, Check: checkListNotEmpty,
			Text: "The process announces at least one plugin, in PluginLister or in PluginInfo.",
		},
		{
			ID: "list-kinds", Kinds: whole, Check: checkListKinds,
			Text: "PluginLister lists only kinds of Velero, which does not start if it finds others. PluginInfo announces the " +
				"others.",
		},
		{
			ID: "list-order", Kinds: whole, Check: checkListOrder,
			Text: "PluginLister lists the kinds in the order " + strings.Join(wire.VeleroKinds(), ", ") +
				", and the names of a kind sorted: actions run in the order of the list.",
		},
		{
			ID: "list-once", Kinds: whole, Check: checkListOnce,
			Text: "PluginLister lists each kind and name once. A host refuses a plugin that is listed twice.",
		},
		{
			ID: "list-names", Kinds: whole, Check: checkNames,
			Text: `Each name is "domain/name": two parts that are not empty, the first one a DNS-1123 subdomain.`,
		},
		{
			ID: "list-command", Kinds: whole, Should: true, Check: checkListCommand,
			Text: "The command in the list is the path by which the process was started: Velero starts it again by that path.",
		},
		{
			ID: "info-answers", Kinds: whole, Check: checkInfo,
			Text: "PluginInfo, if it is served, answers the same each time. Versions are single lines.",
		},
		{
			ID: "info-consistent", Kinds: whole, Check: checkInfoConsistent,
			Text: "PluginInfo has each kind, version and name once, all that PluginLister lists, and no other plugin of " +
				"Velero's kinds. " +
				`The kind stands there without its version ("BackupItemAction"), the version is 1 or more.`,
		},
		{
			ID: "info-schema", Kinds: whole, Check: checkSchemas,
			Text: "A config schema in PluginInfo is a JSON Schema of an object. The host validates the config of users by it.",
		},
		{
			ID: "info-limits", Kinds: whole, Check: checkLimits,
			Text: "The timeouts of operations in PluginInfo are those of actions that start operations. They are durations of " +
				"at least a second, and " +
				"the one without progress is shorter than the other.",
		},
		{
			ID: "info-roles", Kinds: whole, Check: checkRoles,
			Text: "The roles in PluginInfo are those of framework.Role, each once, and the kind can have them. The server " +
				"relies on the contract of each.",
		},
		{
			ID: "served", Kinds: []string{suite.AnyKind}, Check: checkServed,
			Text: "The service of each announced kind and version is served.",
		},
		{
			ID: "unknown-name", Kinds: []string{suite.AnyKind}, Check: checkUnknownName,
			Text: "A request for a plugin that the process does not serve is an error.",
		},
	}
}
