// Package loadpod moves the data of a load in a pod of its own, so that the load outlives the agent of its node:
//
//	order.go     what a pod is to move, as the arguments of its program
//	pod.go       the pod, made from the pod of the agent
//	pods.go      creates, finds, stops and removes pods
//	state.go     what a pod says about its attempt
//	result.go    how an attempt has ended, which is the termination message of the container
//	progress.go  how far it is, in a file that the agent of the node reads
//
// A pod has the name of its attempt, so there is never a second one of the same attempt. Its result stays in its status
// until the agent has written the end of the load.
//
// The package imports run, settings and hostpath. Start reading at Pods.Create.
package loadpod
