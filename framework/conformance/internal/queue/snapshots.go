package queue

import (
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	queueadmissionv1 "github.com/cleat-dev/cleat/proto/cleat/queueadmission/v1"
)

// Moment returns the time ago before that of most snapshots, which is in a Friday night.
func Moment(ago time.Duration) *timestamppb.Timestamp {
	return timestamppb.New(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Add(-ago))
}

// hours returns the moments of the snapshots in hours after the first. They cover all times of day and most weekdays.
func hours() []int { return []int{0, 6, 12, 18, 33, 56, 69, 80, 129} }

// backups returns backups of a phase. They differ in namespaces, scope, labels and age.
func backups(phase string, count int, running bool) []*queueadmissionv1.Backup {
	var all []*queueadmissionv1.Backup
	for i := range count {
		one := &queueadmissionv1.Backup{
			Name:         fmt.Sprintf("%s-%d", phase, i),
			Namespaces:   []string{fmt.Sprintf("ns-%d", i%7), "shared"},
			ClusterScope: queueadmissionv1.ClusterScope(i%3 + 1),
			Labels: map[string]string{"velero.io/schedule-name": fmt.Sprintf("every-%d", i%4),
				"team": fmt.Sprintf("team-%d", i%3)},
			Annotations: map[string]string{"example.io/priority": fmt.Sprint(i % 3)},
			Created:     Moment(time.Duration(count-i) * time.Minute),
			Spec:        []byte(`{"storageLocation":"default","ttl":"720h0m0s"}`),
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
			one.Started = Moment(time.Duration(count-i) * time.Second)
		}
		all = append(all, one)
	}
	return all
}

// Snapshot returns a queue with so many backups that run, are ready and are queued.
func Snapshot(plugin string, config []byte, limit, running, ready, queued int) *queueadmissionv1.DecideRequest {
	return &queueadmissionv1.DecideRequest{
		Plugin: plugin, Config: config, Now: Moment(0), Limit: int32(limit),
		Running: backups("running", running, true), Ready: backups("ready", ready, false), Queued: backups("queued", queued,
			false),
	}
}

// Snapshots returns queues of all sorts, the usual one first, and then the given ones.
func Snapshots(
	plugin string, config []byte, given []*queueadmissionv1.DecideRequest,
) []*queueadmissionv1.DecideRequest {
	all := []*queueadmissionv1.DecideRequest{
		Snapshot(plugin, config, 3, 1, 1, 6),
		Snapshot(plugin, config, 1, 0, 0, 1),
		Snapshot(plugin, config, 1, 1, 0, 3),
		Snapshot(plugin, config, 2, 3, 2, 3),
		Snapshot(plugin, config, 100, 0, 0, 10),
		Snapshot(plugin, config, 5, 0, 4, 10),
		Snapshot(plugin, config, 4, 2, 0, 40),
	}
	for _, after := range hours()[1:] {
		all = append(all, Moved(Snapshot(plugin, config, 4, 1, 0, 9), time.Duration(after)*time.Hour))
	}
	all = append(all, ofOneTeam(plugin, config), beside(plugin, config))
	for _, one := range given {
		request := proto.CloneOf(one)
		request.Plugin, request.Config = plugin, config
		all = append(all, request)
	}
	return all
}

// ofOneTeam returns a queue whose backups have the same labels and no namespace in common.
func ofOneTeam(plugin string, config []byte) *queueadmissionv1.DecideRequest {
	request := Snapshot(plugin, config, 8, 1, 1, 7)
	for _, list := range [][]*queueadmissionv1.Backup{request.GetRunning(), request.GetReady(), request.GetQueued()} {
		for _, one := range list {
			one.AllNamespaces, one.Namespaces = false, []string{"of-" + one.GetName()}
			one.Labels = map[string]string{"team": "team-0", "velero.io/schedule-name": "every-0"}
			one.ClusterScope = queueadmissionv1.ClusterScope_CLUSTER_SCOPE_NONE
		}
	}
	return request
}

// beside returns a queue with free slots, all of whose backups overlap with backups that wait for operations and with
// restores, and with nothing that runs or is ready.
func beside(plugin string, config []byte) *queueadmissionv1.DecideRequest {
	request := Snapshot(plugin, config, 10, 0, 0, 6)
	request.Operating, request.Restoring = backups("operating", 2, true), backups("restores/restoring", 2, true)
	for _, one := range slices.Concat(request.GetOperating(), request.GetRestoring(), request.GetQueued()) {
		one.AllNamespaces, one.Namespaces = false, []string{"shared"}
		one.ClusterScope = queueadmissionv1.ClusterScope_CLUSTER_SCOPE_ALL
	}
	return request
}

// lists returns all backups of a snapshot, by the field that holds them.
func lists(request *queueadmissionv1.DecideRequest) map[string][]*queueadmissionv1.Backup {
	return map[string][]*queueadmissionv1.Backup{
		"running": request.GetRunning(), "ready": request.GetReady(), "queued": request.GetQueued(),
		"operating": request.GetOperating(), "restoring": request.GetRestoring(),
	}
}

// Moved returns a snapshot in which everything happens d later.
func Moved(request *queueadmissionv1.DecideRequest, d time.Duration) *queueadmissionv1.DecideRequest {
	request = proto.CloneOf(request)
	request.Now = Later(request.GetNow(), d)
	for _, list := range lists(request) {
		for _, one := range list {
			one.Created, one.Started = Later(one.GetCreated(), d), Later(one.GetStarted(), d)
		}
	}
	return request
}

// Later returns the time at after d, and nil for no time.
func Later(at *timestamppb.Timestamp, d time.Duration) *timestamppb.Timestamp {
	if at == nil {
		return nil
	}
	return timestamppb.New(at.AsTime().Add(d))
}
