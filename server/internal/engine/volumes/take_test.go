package volumes

import (
	"context"
	"errors"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/versioning/volumesnapshotter"
)

// system is a storage system whose volumes have its own name in their ids.
type system struct {
	volumesnapshotter.Snapshotter
	name         string
	silent, full error
	volume       volumesnapshotter.Volume
	tags         map[string]string
}

func (s *system) GetVolumeID(_ context.Context, pv []byte) (string, error) {
	if string(pv) != s.name {
		return "", s.silent
	}
	return s.name + "-1", s.silent
}

func (s *system) GetVolumeInfo(_ context.Context, _, zone string) (volumesnapshotter.Volume, error) {
	s.volume.Zone = zone
	return s.volume, nil
}

func (s *system) CreateSnapshot(_ context.Context, id, zone string, tags map[string]string) (string, error) {
	s.tags = tags
	return "snap-of-" + id + "-in-" + zone, s.full
}

func TestVolumeBelongsToTheFirstLocationThatKnowsIt(t *testing.T) {
	t.Parallel()
	away := errors.New("away")
	for name, tt := range map[string]struct {
		first, second system
		missing       bool // the first location
		volume        string
		want          string // snapshot
		err           string
	}{
		"first":               {volume: "a", want: "snap-of-a-1-in-z"},
		"second":              {volume: "b", want: "snap-of-b-1-in-z"},
		"nobody's":            {volume: "c"},
		"unknown to a silent": {first: system{silent: away}, volume: "c", err: "volume snapshot location one: away"},
		"known to another":    {first: system{silent: away}, volume: "b", want: "snap-of-b-1-in-z"},
		"location is gone":    {missing: true, volume: "c", err: "volume snapshot location one: no such location"},
		"the system is full":  {first: system{full: away}, volume: "a", err: "error taking snapshot of volume: away"},
		"its own label counts": {second: system{volume: volumesnapshotter.Volume{Type: "ssd", IOPS: 7}}, volume: "b",
			want: "snap-of-b-1-in-z"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.first.name, tt.second.name = "a", "b"
			taker := &Taker{
				Backup: &velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Name: "nightly", UID: "u",
					Labels: map[string]string{"team": "red", "velero.io/pv": "wrong"}}},
				Locations: []string{"one", "two"}, Log: hclog.NewNullLogger(),
				Open: func(_ context.Context, location string) (volumesnapshotter.Snapshotter, error) {
					switch {
					case location == "two":
						return &tt.second, nil
					case tt.missing:
						return nil, errors.New("no such location")
					}
					return &tt.first, nil
				},
			}
			pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv", Labels: map[string]string{zoneLabel: "z"}}}
			taken, err := taker.Take(t.Context(), pv, []byte(tt.volume))
			if tt.err != "" {
				require.EqualError(t, err, tt.err)
				require.Equal(t, tt.first.full != nil, taken != nil, "only a snapshot that was requested counts")
				return
			}
			require.NoError(t, err)
			if tt.want == "" {
				require.Nil(t, taken)
				return
			}
			system, location := &tt.first, "one"
			if tt.volume == "b" {
				system, location = &tt.second, "two"
			}
			var iops *int64
			if system.volume.IOPS != 0 {
				iops = &system.volume.IOPS
			}
			require.Equal(t, &Snapshot{
				Spec: Spec{
					BackupName: "nightly", BackupUID: "u", Location: location, PersistentVolumeName: "pv",
					ProviderVolumeID: tt.volume + "-1",
					VolumeType:       system.volume.Type, VolumeAZ: "z", VolumeIOPS: iops,
				},
				Status: Status{ProviderSnapshotID: tt.want, Phase: Completed},
			}, taken)
			require.Equal(t, map[string]string{"team": "red", "velero.io/backup": "nightly", "velero.io/pv": "pv"}, system.tags)
		})
	}
}
