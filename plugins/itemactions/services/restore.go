package services

import (
	"context"
	"fmt"

	"github.com/cleat-dev/cleat/framework"
	riav1 "github.com/cleat-dev/cleat/framework/restoreitemaction/v1"
	"github.com/cleat-dev/cleat/plugins/itemactions/internal/field"
)

// NewRestore makes velero.io/service. A Service loses its cluster addresses, unless it is headless, and the node
// ports that were assigned to it: in the cluster it goes to they may belong to others. Node ports that the
// user chose stay, and all of them stay with the restore's preserveNodePorts.
//
// A node port counts as chosen when kubectl's last applied configuration has it; without that annotation,
// when some field manager owns it. A health check node port counts as chosen when either says so.
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
		framework.Log(ctx).Debug("a service gets new node ports for those it had been assigned", "namespace", input.Item.GetNamespace(),
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

// dropNodePorts takes the node ports away that were not chosen, and returns them.
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

// chosenPorts is the rule by which the user chose node ports of service.
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

// dropHealthCheckNodePort takes the port away on which a load balancer asks a node whether it has endpoints of
// service, and returns it. Services of other kinds have none.
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

// port is one of a Service's ports, as far as node ports go.
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

// key is how field ownership names the port.
func (p port) key() string {
	return fmt.Sprintf(`k:{"port":%d,"protocol":%q}`, p.number, p.protocol)
}
