// Package operations holds the command that shows the asynchronous operations of plugins. Start reading at
// operations.go; watch.go shows their progress.
package operations
