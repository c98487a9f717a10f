// Package install installs, takes over and removes a server, and does what the guides say.
// The fixture is in server/test/site.
package install
