package roundtrip

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// backUp backs up the namespace, and shows the loads.
func (p *podVolumes) backUp(ctx context.Context, name string) error {
	err := p.watched(ctx, func() (states []loadState, err error) {
		var loads velerov1.PodVolumeBackupList
		err = p.client.List(ctx, &loads, client.InNamespace(Namespace), client.MatchingLabels{velerov1.BackupNameLabel: name})
		for i := range loads.Items {
			states = append(states, loadState{loads.Items[i].Status.Phase, loads.Items[i].Status.Message})
		}
		return states, err
	}, "backup", "create", name, "--include-namespaces", p.namespace, "--default-volumes-to-fs-backup", "--wait")
	if err != nil {
		return err
	}
	var b velerov1.Backup
	if err := p.client.Get(ctx, client.ObjectKey{Namespace: Namespace, Name: name}, &b); err != nil {
		return err
	}
	if b.Status.Phase != velerov1.BackupPhaseCompleted {
		return fmt.Errorf("backup %s is %s", name, b.Status.Phase)
	}
	return nil
}

// restore restores a backup, and shows the loads.
func (p *podVolumes) restore(ctx context.Context, backup string) error {
	err := p.watched(ctx, func() (states []loadState, err error) {
		var loads velerov1.PodVolumeRestoreList
		err = p.client.List(ctx, &loads, client.InNamespace(Namespace))
		for i := range loads.Items {
			states = append(states, loadState{loads.Items[i].Status.Phase, loads.Items[i].Status.Message})
		}
		return states, err
	}, "restore", "create", backup, "--from-backup", backup, "--wait")
	if err != nil {
		return err
	}
	var r velerov1.Restore
	if err := p.client.Get(ctx, client.ObjectKey{Namespace: Namespace, Name: backup}, &r); err != nil {
		return err
	}
	if r.Status.Phase != velerov1.RestorePhaseCompleted {
		return fmt.Errorf("restore %s is %s", backup, r.Status.Phase)
	}
	return nil
}

// loadState is the part of a load that show prints.
type loadState struct {
	phase   velerov1.LoadPhase
	message string
}

// watched runs a command, and prints a line whenever the number of loads in some phase changes. It returns an error
// unless the command has moved each volume.
func (p *podVolumes) watched(ctx context.Context, list func() ([]loadState, error), command ...string) error {
	p.step("cleat %s", strings.Join(command, " "))
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx, command...) }()
	last := ""
	show := func() (completed int, err error) {
		states, err := list()
		if err != nil {
			return 0, err
		}
		line, completed := summary(states)
		if line != last {
			p.step("  %s", line)
			last = line
		}
		return completed, nil
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			if err != nil {
				return err
			}
			completed, err := show()
			if err == nil && completed != podsOfVolumes {
				err = fmt.Errorf("%d of %d volumes were moved", completed, podsOfVolumes)
			}
			return err
		case <-tick.C:
			if _, err := show(); err != nil {
				return err
			}
		}
	}
}

// summary returns the number of loads by phase, with the reason why they are New, and the number of Completed ones.
func summary(states []loadState) (line string, completed int) {
	count, reason := map[velerov1.LoadPhase]int{}, ""
	for _, state := range states {
		phase := cmp.Or(state.phase, velerov1.LoadPhaseNew)
		count[phase]++
		if phase == velerov1.LoadPhaseNew && state.message != "" {
			reason = " (" + state.message + ")"
		}
	}
	var parts []string
	for _, phase := range []velerov1.LoadPhase{
		velerov1.LoadPhaseCompleted, velerov1.LoadPhaseInProgress, velerov1.LoadPhasePrepared, velerov1.LoadPhaseAccepted,
		velerov1.LoadPhaseNew,
		velerov1.LoadPhaseFailed, velerov1.LoadPhaseCanceled,
	} {
		if count[phase] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", count[phase], phase))
		}
	}
	return strings.Join(parts, ", ") + reason, count[velerov1.LoadPhaseCompleted]
}
