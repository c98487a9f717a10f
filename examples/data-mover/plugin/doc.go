// Package plugin has the actions of the mover. They only create, read and cancel DataTransfers; a controller does the
// work. So any process of the plugin can take any call, and may die at any time. Start reading at transfers.go, then
// backup.go.
package plugin
