// Package trust tampers with backups in a bucket, and shows that verification finds it, that only signed backups are
// restored where that is required, and that verification goes on by itself. The fixture is in server/test/site.
package trust
