package services

import (
	"context"
	"fmt"

	"github.com/cleat-dev/cleat/framework"
	riav1 "github.com/cleat-dev/cleat/framework/restoreitemaction/v1"
	"github.com/cleat-dev/cleat/plugins/itemactions/internal/field"
)

// NewRestore returns velero.io/service. It removes the cluster addresses of a Service, unless it is headless, and the
// assigned node ports, because they may be in use in the target cluster. Node ports that the user chose are kept; with
// the restore's preserveNodePorts, all node ports are kept.
//
// A node port counts as chosen if kubectl's last applied configuration contains it or, without that annotation, if a
// field manager owns it. A health check node port counts as chosen in either case.
func NewRestore(context.Context, *framework.Setup) (riav1.RestoreItemAction, error) {
	return &restore{}, nil
}

type restore struct{}

func (*restore) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedResources: []string{"services"}}, nil
}

func (a *restore) Execute(ctx context.Context, input *riav1.ExecuteInput) (*riav1.ExecuteOutput, error) {
	service := input.Item.Object
	if err := dropAddresses(service); err != nil {
		return nil, err
	}
	if keep := input.Restore.Spec.PreserveNodePorts; keep == nil || !*keep {
		ports, err := dropNodePorts(service)
		if err != nil {
			return nil, err
		}
		healthCheck, err := dropHealthCheckNodePort(service)
		if err != nil {
			return nil, err
		}
		framework.Log(ctx).Debug("a service gets new node ports for those it had been assigned", "namespace",
			input.Item.GetNamespace(),
			"name", input.Item.GetName(), "ports", ports, "health check port", healthCheck)
	}
	return riav1.NewExecuteOutput(input.Item), nil
}

func dropAddresses(service map[string]any) error {
	address, err := field.Text(service, "spec", "clusterIP")
	if err != nil || address == "None" {
		return err
	}
	for _, name := range []string{"clusterIP", "clusterIPs"} {
		if _, err := field.Remove(service, "spec", name); err != nil {
			return err
		}
	}
	return nil
}

// dropNodePorts removes the node ports that were not chosen and returns them.
func dropNodePorts(service map[string]any) ([]int64, error) {
	kind, err := field.Text(service, "spec", "type")
	if err != nil || kind == "ExternalName" {
		return nil, err
	}
	ports, err := readPorts(service)
	if err != nil || len(ports) == 0 {
		return nil, err
	}
	chosen, err := chosenPorts(service)
	if err != nil {
		return nil, err
	}
	var dropped []int64
	for _, port := range ports {
		if port.nodePort != 0 && !chosen(port) {
			delete(port.object, "nodePort")
			dropped = append(dropped, port.nodePort)
		}
	}
	return dropped, nil
}

// chosenPorts returns the rule that decides whether the user chose a node port of service.
func chosenPorts(service map[string]any) (func(port) bool, error) {
	applied, there, err := lastApplied(service)
	if err != nil {
		return nil, err
	}
	if there {
		return applied.chose, nil
	}
	fields, err := ownedFields(service)
	if err != nil {
		return nil, err
	}
	return fields.ownNodePort, nil
}

// dropHealthCheckNodePort removes the port on which a load balancer checks whether a node has endpoints of service, and
// returns it. Only some Services have one.
func dropHealthCheckNodePort(service map[string]any) (int64, error) {
	policy, err := field.Text(service, "spec", "externalTrafficPolicy")
	if err != nil || policy != "Local" {
		return 0, err
	}
	kind, err := field.Text(service, "spec", "type")
	if err != nil || kind != "LoadBalancer" {
		return 0, err
	}
	port, err := field.Integer(service, "spec", "healthCheckNodePort")
	if err != nil || port == 0 {
		return 0, err
	}
	applied, _, err := lastApplied(service)
	if err != nil || applied.healthCheckNodePort != 0 {
		return 0, err
	}
	fields, err := ownedFields(service)
	if err != nil || fields.ownHealthCheckNodePort() {
		return 0, err
	}
	_, err = field.Remove(service, "spec", "healthCheckNodePort")
	return port, err
}

// port holds the fields of a Service's port that concern node ports.
type port struct {
	object   map[string]any
	name     string
	number   int64
	protocol string
	nodePort int64
}

func readPorts(service map[string]any) ([]port, error) {
	objects, err := field.Objects(service, "spec", "ports")
	if err != nil {
		return nil, err
	}
	ports := make([]port, len(objects))
	for i, object := range objects {
		if ports[i], err = readPort(object); err != nil {
			return nil, field.In("spec.ports", i, err)
		}
	}
	return ports, nil
}

func readPort(object map[string]any) (port, error) {
	p := port{object: object}
	var err error
	if p.name, err = field.Text(object, "name"); err != nil {
		return port{}, err
	}
	if p.number, err = field.Integer(object, "port"); err != nil {
		return port{}, err
	}
	if p.protocol, err = field.Text(object, "protocol"); err != nil {
		return port{}, err
	}
	if p.protocol == "" {
		p.protocol = "TCP"
	}
	p.nodePort, err = field.Integer(object, "nodePort")
	return p, err
}

// key returns the key of the port in field ownership.
func (p port) key() string {
	return fmt.Sprintf(`k:{"port":%d,"protocol":%q}`, p.number, p.protocol)
}
