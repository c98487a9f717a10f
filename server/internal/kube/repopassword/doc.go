// Package repopassword has the password of all repositories of an installation: the Secret that Velero's have, and
// whether it is the one that everybody knows.
//
// The package imports the API types only. Start reading at Ensure.
package repopassword
