package conformance

import (
	"encoding/json"
	"fmt"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"sigs.k8s.io/yaml"

	queueadmissionv1 "github.com/cleat-dev/cleat/proto/cleat/queueadmission/v1"
)

// moment returns the time that is ago before the one at which most snapshots are taken, a Friday night.
func moment(ago time.Duration) *timestamppb.Timestamp {
	return timestamppb.New(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Add(-ago))
}

// hours are the moments of the snapshots, in hours after the first: all times of day, and all kinds of days.
func hours() []int { return []int{0, 6, 12, 18, 33, 56, 69, 80, 129} }

// backups returns backups of a phase. They differ in namespaces, scope, labels and age.
func backups(phase string, count int, running bool) []*queueadmissionv1.Backup {
	var all []*queueadmissionv1.Backup
	for i := range count {
		one := &queueadmissionv1.Backup{
			Name:         fmt.Sprintf("%s-%d", phase, i),
			Namespaces:   []string{fmt.Sprintf("ns-%d", i%7), "shared"},
			ClusterScope: queueadmissionv1.ClusterScope(i%3 + 1),
			Labels:       map[string]string{"velero.io/schedule-name": fmt.Sprintf("every-%d", i%4), "team": fmt.Sprintf("team-%d", i%3)},
			Annotations:  map[string]string{"example.io/priority": fmt.Sprint(i % 3)},
			Created:      moment(time.Duration(count-i) * time.Minute),
			Spec:         []byte(`{"storageLocation":"default","ttl":"720h0m0s"}`),
		}
		switch i % 5 {
		case 1:
			one.AllNamespaces = true
		case 2:
			one.Namespaces = nil
		case 3:
			one.Namespaces = []string{fmt.Sprintf("%s-own-%d", phase, i)}
		case 4:
			one.Labels, one.Annotations = nil, nil
		}
		if running {
			one.Started = moment(time.Duration(count-i) * time.Second)
		}
		all = append(all, one)
	}
	return all
}

func (s *subject) snapshot(config []byte, limit, running, ready, queued int) *queueadmissionv1.DecideRequest {
	return &queueadmissionv1.DecideRequest{
		Plugin: s.name, Config: config, Now: moment(0), Limit: int32(limit),
		Running: backups("running", running, true), Ready: backups("ready", ready, false), Queued: backups("queued", queued, false),
	}
}

// snapshots returns queues of all sorts, the usual one first, and then those of the caller.
func (s *subject) snapshots(config []byte) []*queueadmissionv1.DecideRequest {
	all := []*queueadmissionv1.DecideRequest{
		s.snapshot(config, 3, 1, 1, 6),
		s.snapshot(config, 1, 0, 0, 1),
		s.snapshot(config, 1, 1, 0, 3),
		s.snapshot(config, 2, 3, 2, 3),
		s.snapshot(config, 100, 0, 0, 10),
		s.snapshot(config, 5, 0, 4, 10),
		s.snapshot(config, 4, 2, 0, 40),
	}
	for _, after := range hours()[1:] {
		all = append(all, movedSnapshot(s.snapshot(config, 4, 1, 0, 9), time.Duration(after)*time.Hour))
	}
	all = append(all, s.ofOneTeam(config))
	for _, given := range s.queues {
		request := proto.CloneOf(given)
		request.Plugin, request.Config = s.name, config
		all = append(all, request)
	}
	return all
}

// ofOneTeam returns a queue whose backups have the same labels and no namespace in common.
func (s *subject) ofOneTeam(config []byte) *queueadmissionv1.DecideRequest {
	request := s.snapshot(config, 8, 1, 1, 7)
	for _, list := range [][]*queueadmissionv1.Backup{request.GetRunning(), request.GetReady(), request.GetQueued()} {
		for _, one := range list {
			one.AllNamespaces, one.Namespaces = false, []string{"of-" + one.GetName()}
			one.Labels = map[string]string{"team": "team-0", "velero.io/schedule-name": "every-0"}
			one.ClusterScope = queueadmissionv1.ClusterScope_CLUSTER_SCOPE_NONE
		}
	}
	return request
}

// movedSnapshot returns a snapshot in which everything happens d later.
func movedSnapshot(request *queueadmissionv1.DecideRequest, d time.Duration) *queueadmissionv1.DecideRequest {
	request = proto.CloneOf(request)
	request.Now = later(request.GetNow(), d)
	for _, list := range [][]*queueadmissionv1.Backup{request.GetRunning(), request.GetReady(), request.GetQueued()} {
		for _, one := range list {
			one.Created, one.Started = later(one.GetCreated(), d), later(one.GetStarted(), d)
		}
	}
	return request
}

// parseSnapshot reads a snapshot of a queue; see WithSnapshot.
func parseSnapshot(raw []byte) (*queueadmissionv1.DecideRequest, error) {
	var fields map[string]any
	if err := yaml.Unmarshal(raw, &fields); err != nil {
		return nil, err
	}
	for _, phase := range []string{"running", "ready", "queued"} {
		list, _ := fields[phase].([]any)
		for i, one := range list {
			if backup, ok := one.(map[string]any); ok {
				if err := encodeSpec(backup); err != nil {
					return nil, fmt.Errorf("%s[%d].spec: %w", phase, i, err)
				}
			}
		}
	}
	if _, ok := fields["config"]; ok {
		return nil, fmt.Errorf("config: give it apart from the snapshot")
	}
	encoded, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	request := &queueadmissionv1.DecideRequest{}
	if err := protojson.Unmarshal(encoded, request); err != nil {
		return nil, err
	}
	return request, completeSnapshot(request)
}

// encodeSpec replaces the spec of a backup, an object, by the bytes that travel on the wire.
func encodeSpec(backup map[string]any) error {
	spec, ok := backup["spec"]
	if !ok {
		spec = map[string]any{}
	}
	if _, ok := spec.(map[string]any); !ok {
		return fmt.Errorf("want an object, not %v", spec)
	}
	encoded, err := json.Marshal(spec)
	backup["spec"] = encoded // which JSON has in base64, as protobuf does
	return err
}

// completeSnapshot sets what a snapshot leaves out and what is never absent on the wire, and checks the rest.
func completeSnapshot(request *queueadmissionv1.DecideRequest) error {
	if request.GetLimit() < 1 {
		return fmt.Errorf("limit: want a number of backups, at least 1")
	}
	if len(request.GetQueued()) == 0 {
		return fmt.Errorf("queued: want one backup at least")
	}
	if request.GetNow() == nil {
		request.Now = moment(0)
	}
	names := map[string]bool{}
	for phase, list := range map[string][]*queueadmissionv1.Backup{
		"running": request.GetRunning(), "ready": request.GetReady(), "queued": request.GetQueued(),
	} {
		for i, one := range list {
			if one.GetName() == "" || names[one.GetName()] {
				return fmt.Errorf("%s[%d].name: want a name that no other backup has, not %q", phase, i, one.GetName())
			}
			names[one.GetName()] = true
			age := time.Duration(len(list)-i) * time.Minute
			if one.GetCreated() == nil {
				one.Created = later(request.GetNow(), -age)
			}
			if phase == "running" && one.GetStarted() == nil {
				one.Started = later(one.GetCreated(), age/2)
			}
			if one.GetClusterScope() == queueadmissionv1.ClusterScope_CLUSTER_SCOPE_UNSPECIFIED {
				one.ClusterScope = queueadmissionv1.ClusterScope_CLUSTER_SCOPE_RELATED
			}
		}
	}
	return nil
}
