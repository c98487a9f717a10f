// Package operations runs servers with a plugin whose actions start operations, and follows these to their ends.
// The fixture is in server/test/site.
package operations
