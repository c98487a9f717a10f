package operation

import "github.com/cleat-dev/cleat/framework"

// Roles reports whether the action with a name has a role. Names may come from the records of other servers. With nil,
// no action has a role.
type Roles func(action string, role framework.Role) bool

// Has reports whether an action has a role.
func (r Roles) Has(action string, role framework.Role) bool { return r != nil && r(action, role) }
