// Package console has the command "console" and the pages that it serves, one file each. A page shows what a command
// prints, in the same words: its document is that of the command, or one of server/cli/status. The frame around the
// pages, with its doors, feeds and server-sent events, is server/internal/console.
//
// The forms that restore and back up are restore_form.go and backup_form.go, over form.go; dryrun.go has their dry runs.
//
// loopback.go opens a console on a loopback address for its user alone.
//
// Start reading at console.go; pages.go lists the pages. A new page is a file with a Page and a template, and an entry
// in that list.
package console
