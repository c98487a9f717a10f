package rules

import (
	"slices"

	"github.com/cleat-dev/cleat/framework/conformance/internal/rules/action"
	"github.com/cleat-dev/cleat/framework/conformance/internal/rules/announce"
	"github.com/cleat-dev/cleat/framework/conformance/internal/rules/end"
	"github.com/cleat-dev/cleat/framework/conformance/internal/rules/mover"
	"github.com/cleat-dev/cleat/framework/conformance/internal/rules/operation"
	"github.com/cleat-dev/cleat/framework/conformance/internal/rules/policy"
	"github.com/cleat-dev/cleat/framework/conformance/internal/rules/storage"
	"github.com/cleat-dev/cleat/framework/conformance/internal/suite"
)

// Families returns all rules by family, in the order in which the rules of a plugin are checked.
func Families() [][]suite.Rule {
	return [][]suite.Rule{announce.Rules(), action.Rules(), operation.Rules(), storage.Rules(), mover.Rules(),
		policy.Rules(), end.Rules()}
}

// All returns the rules of all families.
func All() []suite.Rule { return slices.Concat(Families()...) }
