// Package repopassword has the password of all repositories of an installation: the Secret of Velero's installations,
// and whether it has Velero's public password.
//
// The package imports the API types only. Start reading at Ensure.
package repopassword
