// Command first-plugin is an author's first plugin: an action that marks the items of a backup, and one that removes
// the mark when they are restored. See README.md.
package main

import (
	"github.com/cleat-dev/cleat/framework"
	biav1 "github.com/cleat-dev/cleat/framework/backupitemaction/v1"
	riav1 "github.com/cleat-dev/cleat/framework/restoreitemaction/v1"
)

func main() {
	framework.Serve(
		biav1.Register("example.cleat.dev/mark", newMark),
		riav1.Register("example.cleat.dev/unmark", newUnmark),
	)
}
