package status

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
)

func printBackupHooks(d *layout.Description, hooks []velerov1.BackupResourceHookSpec) {
	d.Gap()
	if len(hooks) == 0 {
		d.Line("Hooks:  <none>")
		return
	}
	d.Section("Hooks", func() {
		for i := range hooks {
			h := &hooks[i]
			d.Section(h.Name, func() {
				printPods(d, h.IncludedNamespaces, h.ExcludedNamespaces, h.LabelSelector,
					[2]string{"Resources", layout.ListOr(h.IncludedResources, "*")}, [2]string{"Excluded resources",
						layout.ListOr(h.ExcludedResources, "<none>")})
				for _, list := range []struct {
					head  string
					hooks []velerov1.BackupResourceHook
				}{{"Pre Exec Hook", h.PreHooks}, {"Post Exec Hook", h.PostHooks}} {
					for _, one := range list.hooks {
						if one.Exec != nil {
							d.Section(list.head, func() {
								printCommand(d, one.Exec.Container, one.Exec.Command, cmp.Or(one.Exec.OnError, velerov1.HookErrorModeFail),
									[2]string{"Timeout", orDefault(one.Exec.Timeout.Duration, "30s")})
							})
						}
					}
				}
			})
		}
	})
}

func printRestoreHooks(d *layout.Description, hooks []velerov1.RestoreResourceHookSpec) {
	if len(hooks) == 0 {
		return
	}
	d.Gap()
	d.Section("Hooks", func() {
		for i := range hooks {
			h := &hooks[i]
			d.Section(h.Name, func() {
				printPods(d, h.IncludedNamespaces, h.ExcludedNamespaces, h.LabelSelector)
				for _, one := range h.PostHooks {
					if one.Init != nil {
						d.Pairs([2]string{"Init containers", strconv.Itoa(len(one.Init.InitContainers))})
					}
					if one.Exec != nil {
						d.Section("Exec Hook", func() {
							ready := one.Exec.WaitForReady
							printCommand(d, one.Exec.Container, one.Exec.Command, cmp.Or(one.Exec.OnError, velerov1.HookErrorModeContinue),
								[2]string{"Exec timeout", orDefault(one.Exec.ExecTimeout.Duration, "30s")},
								[2]string{"Wait timeout", orDefault(one.Exec.WaitTimeout.Duration, "<none>")},
								[2]string{"Wait for ready", strconv.FormatBool(ready != nil && *ready)})
						})
					}
				}
			})
		}
	})
}

func printPods(d *layout.Description, included, excluded []string, selector *metav1.LabelSelector, more ...[2]string) {
	d.Pairs(append([][2]string{
		{"Namespaces", layout.ListOr(included, "*")}, {"Excluded namespaces", layout.ListOr(excluded, "<none>")},
		{"Label selector", formatSelector(selector, nil)},
	}, more...)...)
}

func printCommand(
	d *layout.Description, container string, command []string, onError velerov1.HookErrorMode, more ...[2]string,
) {
	d.Pairs(append([][2]string{
		{"Container", cmp.Or(container, "<first>")}, {"Command", layout.OneLine(strings.Join(command, " "))}, {"On Error",
			string(onError)},
	}, more...)...)
}

func orDefault(d time.Duration, none string) string {
	if d <= 0 {
		return none
	}
	return d.String()
}

// printHookStatus writes how many hooks were attempted, with those in the annotations of pods.
func printHookStatus(d *layout.Description, status *velerov1.HookStatus) {
	if status != nil {
		d.Gap()
		d.Pairs([2]string{"HooksAttempted", strconv.Itoa(status.HooksAttempted)},
			[2]string{"HooksFailed", strconv.Itoa(status.HooksFailed)})
	}
}
