// Package plugins adds, replaces and runs plugins of authors and vendors in a server.
// The fixture is in server/test/site.
package plugins
