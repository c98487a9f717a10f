package operation

import "github.com/cleat-dev/cleat/framework"

// Roles reports whether the action of a name has a role. Names are also those in the records of other servers.
type Roles func(action string, role framework.Role) bool
