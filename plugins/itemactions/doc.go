// Package itemactions is the built-in actions on the items of backups and restores, under the names and with
// the meaning that they have in Velero. They are plugins like anyone's, and built on framework only.
//
// register.go lists them all; each family of resources is a folder. Where an action has nothing to change
// it answers nil, so that the item's bytes are not encoded again. None loses a field that it does not know.
//
// Velero has more of them, which come with what they are about: volumes (pod-volume-restore, csi-*,
// dataupload), hooks (init-restore-hook) and configuration by ConfigMap (change-storage-class,
// change-image-name). crd-remap-version is left out for good: it fetches definitions anew as
// apiextensions.k8s.io/v1beta1, which no API server since Kubernetes 1.22 serves.
package itemactions
