// Package key has the commands about the keys that sign backups. Start reading at key.go.
package key
