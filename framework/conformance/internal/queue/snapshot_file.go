package queue

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	queueadmissionv1 "github.com/cleat-dev/cleat/proto/cleat/queueadmission/v1"
)

// Parse reads a snapshot of a queue; see WithSnapshot.
func Parse(raw []byte) (*queueadmissionv1.DecideRequest, error) {
	var fields map[string]any
	if err := yaml.Unmarshal(raw, &fields); err != nil {
		return nil, err
	}
	if kind, _ := fields["kind"].(string); strings.HasSuffix(kind, "List") {
		return parseBackups(raw)
	}
	for phase := range lists(&queueadmissionv1.DecideRequest{}) {
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
		return nil, errors.New("config: it is not part of a snapshot, configure the plugin instead")
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
		return errors.New("limit: want a number of backups, at least 1")
	}
	if len(request.GetQueued()) == 0 {
		return errors.New("queued: want one backup at least")
	}
	if request.GetNow() == nil {
		request.Now = Moment(0)
	}
	names := map[string]bool{}
	for phase, list := range lists(request) {
		for i, one := range list {
			if one.GetName() == "" || names[one.GetName()] {
				return fmt.Errorf("%s[%d].name: want a name that no other backup has, not %q", phase, i, one.GetName())
			}
			names[one.GetName()] = true
			slices.Sort(one.GetNamespaces())
			age := time.Duration(len(list)-i) * time.Minute
			if one.GetCreated() == nil {
				one.Created = Later(request.GetNow(), -age)
			}
			if phase != "ready" && phase != "queued" && one.GetStarted() == nil {
				one.Started = Later(one.GetCreated(), age/2)
			}
			if one.GetClusterScope() == queueadmissionv1.ClusterScope_CLUSTER_SCOPE_UNSPECIFIED {
				one.ClusterScope = queueadmissionv1.ClusterScope_CLUSTER_SCOPE_RELATED
			}
		}
	}
	return nil
}

// parseBackups reads a list of Backups, as "kubectl get backups -o yaml" prints it. The snapshot has those that run,
// are ready and wait, and a limit that leaves one more to be admitted. Namespaces are those that a Backup names.
func parseBackups(raw []byte) (*queueadmissionv1.DecideRequest, error) {
	var list struct {
		Items []struct {
			Kind     string
			Metadata metav1.ObjectMeta
			Spec     map[string]any
			Status   struct {
				Phase          string
				StartTimestamp *metav1.Time
			}
		}
	}
	if err := yaml.Unmarshal(raw, &list); err != nil {
		return nil, err
	}
	request := &queueadmissionv1.DecideRequest{Now: timestamppb.New(time.Now())}
	for i, item := range list.Items {
		if item.Kind != "Backup" {
			return nil, fmt.Errorf("items[%d].kind: want Backup, not %q", i, item.Kind)
		}
		spec, err := json.Marshal(item.Spec)
		if err != nil {
			return nil, fmt.Errorf("items[%d].spec: %w", i, err)
		}
		one := &queueadmissionv1.Backup{
			Name: item.Metadata.Name, Labels: item.Metadata.Labels, Annotations: item.Metadata.Annotations, Spec: spec,
		}
		named, _ := item.Spec["includedNamespaces"].([]any)
		for _, namespace := range named {
			one.Namespaces = append(one.Namespaces, fmt.Sprint(namespace))
		}
		slices.Sort(one.Namespaces)
		if len(named) == 0 || slices.Contains(one.Namespaces, "*") {
			one.AllNamespaces, one.Namespaces = true, nil
		}
		if created := item.Metadata.CreationTimestamp; !created.IsZero() {
			one.Created = timestamppb.New(created.Time)
		}
		switch item.Status.Phase {
		case "InProgress":
			if started := item.Status.StartTimestamp; started != nil {
				one.Started = timestamppb.New(started.Time)
			}
			request.Running = append(request.Running, one)
		case "ReadyToStart":
			request.Ready = append(request.Ready, one)
		case "", "New", "Queued":
			request.Queued = append(request.Queued, one)
		}
	}
	request.Limit = int32(len(request.GetRunning()) + len(request.GetReady()) + 1)
	return request, completeSnapshot(request)
}
