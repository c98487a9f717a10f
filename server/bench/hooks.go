package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/cleat-dev/cleat/server/test/kubelet"
)

const (
	hookedPods    = 200
	hookedAtOnce  = 8 // pods
	hookNamespace = "hooked"
)

// hooksOverExec reports the time of a backup of 200 pods with a pre and a post hook that do nothing, eight blocks at a
// time, divided by the time of the same number of bare exec calls, eight pods at a time. Both begin a process for each
// call.
func hooksOverExec(ctx context.Context, s *site, report func(string, float64)) (err error) {
	config := rest.CopyConfig(s.client.Config())
	config.QPS = -1
	node, err := kubelet.Start(ctx, config, filepath.Join(s.WorkDir, "pods"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.Stop()) }()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	if err := createHooked(ctx, client, node); err != nil {
		return err
	}
	server, err := s.Serve(ctx, s.client, "--item-block-worker-count", strconv.Itoa(hookedAtOnce))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	var ratios []float64
	for run := range runs + 1 {
		bare, err := bareExecs(ctx, config, client)
		if err != nil {
			return err
		}
		ours, done, err := s.backup(ctx, fmt.Sprintf("run-%d", run),
			map[string]any{"includedNamespaces": []any{hookNamespace}})
		if err != nil {
			return err
		}
		if run == 0 {
			continue // warm-up
		}
		ratios = append(ratios, ours.Seconds()/bare.Seconds())
		hooks, _, _ := unstructured.NestedFieldNoCopy(done.Object, "status", "hookStatus")
		say("%v: backup %.3fs, bare calls %.3fs, ratio %.2f", hooks, ours.Seconds(), bare.Seconds(), ratios[run-1])
	}
	report("hooks_over_exec", median(ratios))
	return nil
}

func createHooked(ctx context.Context, client kubernetes.Interface, node *kubelet.Kubelet) error {
	if _, err := client.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: hookNamespace}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	const name = "runner"
	if _, err := client.CoreV1().ServiceAccounts(hookNamespace).Create(ctx,
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	for n := range hookedPods {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: podName(n), Annotations: map[string]string{
				"pre.hook.backup.velero.io/command": "true", "post.hook.backup.velero.io/command": "true",
			}},
			Spec: corev1.PodSpec{ServiceAccountName: name, Containers: []corev1.Container{{Name: "app", Image: "app"}}},
		}
		if _, err := client.CoreV1().Pods(hookNamespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return err
		}
		if err := node.Run(ctx, hookNamespace, pod.Name, true); err != nil {
			return err
		}
	}
	return nil
}

func podName(n int) string { return "web-" + strconv.Itoa(n) }

// bareExecs runs two commands in each pod and returns the time.
func bareExecs(ctx context.Context, config *rest.Config, client kubernetes.Interface) (time.Duration, error) {
	began := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(hookedAtOnce)
	for n := range hookedPods {
		group.Go(func() error {
			url := client.CoreV1().RESTClient().Post().Resource("pods").Namespace(hookNamespace).Name(podName(n)).SubResource(
				"exec",
			).
				VersionedParams(&corev1.PodExecOptions{Container: "app", Command: []string{"true"}, Stdout: true, Stderr: true},
					scheme.ParameterCodec).URL()
			for range 2 {
				executor, err := remotecommand.NewWebSocketExecutor(config, http.MethodGet, url.String())
				if err != nil {
					return err
				}
				if err := executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: io.Discard,
					Stderr: io.Discard}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err := group.Wait()
	return time.Since(began), err
}
