// Package hook runs the hooks of backups and restores: commands in containers of pods, from the annotations of a pod
// or the spec of the backup or restore.
//
// Start with Backup in backup.go, which runs the hooks around the objects of a block, and Restores in restores.go,
// which runs the hooks of restored pods in the background. The other files:
//
//	restore.go     the hooks of one restore, from its first pod to the results
//	pod.go         the hooks of one restored pod
//	mark.go        the annotation that records which hooks of a pod have run, for the next server
//	watch.go       the restored pods of a namespace, and their changes
//	command.go     one command: from annotations or a spec, and how it is run
//	selector.go    the pods to which a hook of a spec applies
//	exec.go        runs a command in a container through the API server
//	output.go      the beginning and the end of the output of a command
//
// Init containers are hooks too; the action velero.io/init-restore-hook adds them to pods.
//
// The package imports the types of custom resources, client-go, filter, kubeapi, results and runlog.
package hook
