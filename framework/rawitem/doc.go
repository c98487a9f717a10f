// Package rawitem reads and changes parts of the JSON of items without decoding the rest. It is for actions that get
// their items raw (see RawExecutor of package backupitemaction): decoding is most of the cost of a small action. Start
// at rawitem.go.
package rawitem
