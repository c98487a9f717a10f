// Package restore holds the commands about restores. Start reading at restore.go. The flags in flags.go describe a new
// restore; the console has them as fields of a form.
package restore
