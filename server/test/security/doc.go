// Package security attacks a server in the ways that the threat model in SECURITY.md lists. The fixture is in
// server/test/site.
package security
