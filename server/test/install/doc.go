// Package install installs, takes over and removes a server, and runs the commands of the guides. The fixture is in
// server/test/site.
package install
