// Package faults takes servers, the API server and the object store away from backups and restores.
// The fixture is in server/test/site.
package faults
