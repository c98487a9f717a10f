// Package pods helps tests and the demo to run pods on the node of a control plane (controlplane.Options.Node), with a
// real kubelet:
//
//	cluster := plane.Get(t)                                      // of controlplane.Shared{Options: controlplane.Options{Node: true}}
//	pods.Import(ctx, cluster, "tree.invalid/tree:1", program)    // an image of a static program; nothing is pulled
//	pods.Exec(ctx, cluster, namespace, pod, "/tree", "list")     // through the API server
//	pods.OnNode(ctx, cluster, program, args...)                  // a process of the node that is in no pod, such as a node agent
//
// On a machine that cannot run a node, Shared.Get skips the test with the reason.
//
// Package kubelet is different: it simulates a kubelet, so that commands of hooks can run in pods on any machine, but
// runs nothing else of a pod.
package pods
