// Package register has the common code of the Register functions of all kinds. It imports framework and
// framework/internal/glue.
package register

import (
	"context"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/framework/internal/glue"
)

// New returns the registration of an implementation of kind.
func New[H any](
	kind glue.Kind[H], name string, construct func(context.Context, *framework.Setup) (H, error),
	options []framework.Option,
) framework.Registration {
	var wrapped glue.Constructor[H]
	if construct != nil {
		wrapped = func(ctx context.Context, setup *glue.Setup) (H, error) {
			return construct(ctx, (*framework.Setup)(setup))
		}
	}
	all := make([]glue.Option, 0, len(options))
	for _, option := range options {
		all = append(all, glue.Option(option))
	}
	return framework.Registration(glue.NewRegistration(kind, name, wrapped, all...))
}
