// Package restore holds the commands about restores. Start reading at restore.go.
package restore
