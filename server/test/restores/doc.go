// Package restores restores with a server, over existing objects and with names that have no effect. The fixture is in
// server/test/site.
package restores
