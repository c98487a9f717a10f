// Package plugin has the actions of the mover. They only create, read and cancel DataTransfers; a controller does the
// work. So it does not matter which process of the plugin gets which call, and when it dies. Start reading at
// transfers.go, then backup.go.
package plugin
