// Package serviceaccounts holds the built-in actions on ServiceAccounts: Backup sees to it that what grants an
// account its rights comes with it, Restore takes off the token that the other cluster had made.
//
// It imports framework and the API types of RBAC. Read backup.go first; bindings.go is where it knows the
// ClusterRoleBindings from.
package serviceaccounts
