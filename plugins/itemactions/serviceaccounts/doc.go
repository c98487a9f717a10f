// Package serviceaccounts holds the built-in actions on ServiceAccounts: Backup adds what grants an account its
// permissions, Restore removes the token that the other cluster created.
//
// It imports framework and the API types of RBAC. Read backup.go first; bindings.go reads the ClusterRoleBindings.
package serviceaccounts
