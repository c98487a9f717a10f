// Package rawitem looks at the JSON of items and changes a little of it without decoding the rest. It is for actions that
// get their items raw (see RawExecutor of package backupitemaction); what decoding costs is most of what a small action
// takes. Start reading at rawitem.go.
package rawitem
