package pods_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/plugins/itemactions/internal/actiontest"
	"github.com/cleat-dev/cleat/plugins/itemactions/pods"
)

// annotated returns a pod with annotations, labels and init containers, each as JSON.
func annotated(annotations, initContainers string) string {
	return `{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","name":"web","labels":{"app":"web"},"annotations":{` + annotations + `}},
		"spec":{` + initContainers + `"containers":[{"name":"main"}]}}`
}

func hook(change func(*velerov1.RestoreResourceHookSpec), containers ...string) velerov1.RestoreResourceHookSpec {
	spec := velerov1.RestoreResourceHookSpec{Name: "h",
		PostHooks: []velerov1.RestoreResourceHook{{Exec: &velerov1.ExecRestoreHook{}}, {Init: &velerov1.InitRestoreHook{}}}}
	for _, container := range containers {
		spec.PostHooks[1].Init.InitContainers = append(spec.PostHooks[1].Init.InitContainers,
			runtime.RawExtension{Raw: []byte(container)})
	}
	if change != nil {
		change(&spec)
	}
	return spec
}

func hooks(specs ...velerov1.RestoreResourceHookSpec) velerov1.RestoreSpec {
	return velerov1.RestoreSpec{NamespaceMapping: map[string]string{"shop": "shop-copy"},
		Hooks: velerov1.RestoreHooks{Resources: specs}}
}

func TestInitContainersOfHooksAreAdded(t *testing.T) {
	t.Parallel()
	action, err := pods.NewInitHooks(t.Context(), nil)
	require.NoError(t, err)
	selector, err := action.AppliesTo(t.Context())
	require.NoError(t, err)
	require.Equal(t, framework.ResourceSelector{IncludedResources: []string{"pods"}}, selector)

	const one = `{"name":"one","image":"i","command":["c"],"ports":[{"containerPort":80}]}`
	const two = `{"name":"two","image":"i","command":["c"]}`
	const image = `"init.hook.restore.velero.io/container-image":"alpine"`
	const named = image + `,"init.hook.restore.velero.io/container-name":"fix"`
	namespaces := func(included, excluded []string) func(*velerov1.RestoreResourceHookSpec) {
		return func(h *velerov1.RestoreResourceHookSpec) {
			h.IncludedNamespaces, h.ExcludedNamespaces = included, excluded
		}
	}
	labelled := func(value string) func(*velerov1.RestoreResourceHookSpec) {
		return func(h *velerov1.RestoreResourceHookSpec) {
			h.LabelSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": value}}
		}
	}
	plain := annotated("", "")
	with := func(containers string) string { return annotated("", `"initContainers":[`+containers+`],`) }
	for name, row := range map[string]actiontest.Restore{
		"no hooks":               {Item: plain},
		"exec hooks only":        {Item: plain, Spec: hooks(hook(nil))},
		"of all hooks, in order": {Item: plain, Spec: hooks(hook(nil, one), hook(nil, two)), Want: with(one + "," + two)},
		"before the pod's": {Item: with(`{"name":"own"}`), Spec: hooks(hook(nil, one)),
			Want: with(one + `,{"name":"own"}`)},
		"after restore-wait": {Item: with(`{"name":"restore-wait"},{"name":"own"}`), Spec: hooks(hook(nil, one)),
			Want: with(`{"name":"restore-wait"},` + one + `,{"name":"own"}`)},
		"restore-wait elsewhere": {Item: with(`{"name":"own"},{"name":"restore-wait"}`), Spec: hooks(hook(nil, one)),
			Want: with(one + `,{"name":"own"},{"name":"restore-wait"}`)},
		"namespace restored into": {Item: plain, Spec: hooks(hook(namespaces([]string{"shop-*"}, nil), one)),
			Want: with(one)},
		"namespace in the backup": {Item: plain, Spec: hooks(hook(namespaces([]string{"shop"}, nil), one))},
		"excluded namespace":      {Item: plain, Spec: hooks(hook(namespaces([]string{"*"}, []string{"shop-copy"}), one))},
		"labels": {Item: plain, Spec: hooks(hook(labelled("web"), one), hook(labelled("db"), two)),
			Want: with(one)},
		"annotations": {
			Item: annotated(named+`,"init.hook.restore.velero.io/command":"[\"/bin/sh\",\"-c\"]"`, ""),
			Spec: hooks(hook(nil, one)),
			Want: annotated(named+`,"init.hook.restore.velero.io/command":"[\"/bin/sh\",\"-c\"]"`,
				`"initContainers":[{"name":"fix","image":"alpine","command":["/bin/sh","-c"]}],`),
		},
		"command of one word": {
			Item: annotated(named+`,"init.hook.restore.velero.io/command":"/fix"`, ""),
			Want: annotated(named+`,"init.hook.restore.velero.io/command":"/fix"`,
				`"initContainers":[{"name":"fix","image":"alpine","command":["/fix"]}],`),
		},
		"entry point of the image, generated name": {
			Item: annotated(image, ""), Want: annotated(image,
				`"initContainers":[{"name":"velero-restore-init-86e31c71","image":"alpine"}],`),
		},
		"no image": {Item: annotated(`"init.hook.restore.velero.io/command":"/fix"`, ""), Spec: hooks(hook(nil, one)),
			Want: annotated(`"init.hook.restore.velero.io/command":"/fix"`, `"initContainers":[`+one+`],`)},
		"foreign": {Item: annotated(named, `"initContainers":[7],`),
			Err: "spec.initContainers[0] is a number, want an object"},
		"no container": {Item: plain, Spec: hooks(hook(nil, `[]`)),
			Err: "hook h: init container 0: json: cannot unmarshal array into Go value of type map[string]interface {}"},
		"invalid selector": {Item: plain, Spec: hooks(hook(labelled("a b"), one)),
			Err: `hook h: labelSelector: values[0][app]: Invalid value: "a b": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`},
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); row.Run(t, action) })
	}
	actiontest.RestoreShapes(t, action, annotated(named, `"initContainers":[{"name":"own"}],`), velerov1.RestoreSpec{})
}
