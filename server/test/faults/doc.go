// Package faults makes servers, the API server and the object store unavailable for backups and restores. The fixture
// is in server/test/site.
package faults
