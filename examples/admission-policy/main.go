// Command admission-policy is a plugin that decides which queued backups may start: no backups of a team during its
// freeze windows, and only a limited number of a team at once. See README.md.
package main

import (
	"github.com/cleat-dev/cleat/framework"
	qav1 "github.com/cleat-dev/cleat/framework/queueadmission/v1"
)

const name = "example.cleat.dev/office-hours"

func main() { framework.Serve(register()) }

func register() framework.Registration {
	return qav1.Register(name, newPolicy, framework.WithConfig(config{}, framework.ConfigSchema(schema)))
}
