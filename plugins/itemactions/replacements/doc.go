// Package replacements holds the built-in actions that replace names in restored objects according to a ConfigMap:
// StorageClasses (storageclass.go) and images (image.go).
//
// The ConfigMap is in the server's namespace and has the labels velero.io/plugin-config, with any value, and the name
// of the action with the value RestoreItemAction. It is read once per restore (settings.go). The package imports
// framework only; functions give it access to the cluster.
package replacements
