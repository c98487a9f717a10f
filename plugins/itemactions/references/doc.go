// Package references holds the built-in actions that make references to namespaces follow the namespaceMapping of a
// restore. It imports framework only.
//
// Start with table.go, which has the fields of each kind of object that refer to a namespace, and the form in which
// they do. forms.go maps a field of each form, walk.go finds the fields, and restore.go is the action.
//
// Fields that are in no table, or whose text cannot be changed safely, are left: the server warns of them.
package references
