package world

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

// Plain returns the namespaces of s and perNamespace objects in each of them that no controller changes: half of them
// config maps of about 1 KiB, a third secrets, the rest roles and bindings.
func Plain(s Spec, perNamespace int) []Object {
	var out []Object
	for n := range s.Namespaces {
		out = append(out, object("v1", "Namespace", "namespaces", "", s.Namespace(n), nil))
	}
	rule := []any{fields{"apiGroups": []any{""}, "resources": []any{"configmaps"}, "verbs": []any{"get"}}}
	const rbac = "rbac.authorization.k8s.io/v1"
	for n := range s.Namespaces {
		ns := s.Namespace(n)
		for i := range perNamespace {
			name := fmt.Sprintf("plain-%05d", i)
			switch i % 6 {
			case 0, 1, 2:
				out = append(out, configMap(ns, name, fields{"app.conf": noise(i, 600+(i*37)%800)}))
			case 3, 4:
				out = append(out, object("v1", "Secret", "secrets", ns, name, fields{
					"type": "Opaque", "data": fields{"password": base64.StdEncoding.EncodeToString([]byte(noise(i, 256)))},
				}))
			case 5:
				if i%12 == 5 {
					out = append(out, object(rbac, "Role", "roles", ns, name, fields{"rules": rule}))
					continue
				}
				out = append(out, object(rbac, "RoleBinding", "rolebindings", ns, name, fields{
					"roleRef":  fields{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "plain-00005"},
					"subjects": []any{fields{"kind": "ServiceAccount", "name": "default", "namespace": ns}},
				}))
			}
		}
	}
	return out
}

// CreateBare creates objects as fast as possible, as a baseline for benchmarks: the namespaces first, and then one POST
// per object from the given number of workers, without decoding the responses.
func (c *Client) CreateBare(ctx context.Context, objects []Object, workers int) error {
	config := rest.CopyConfig(c.config)
	config.NegotiatedSerializer = serializer.NewCodecFactory(runtime.NewScheme()).WithoutConversion()
	client, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}
	for _, namespaces := range []bool{true, false} {
		g, gctx := errgroup.WithContext(ctx)
		g.SetLimit(workers)
		for _, o := range objects {
			if (o.GetKind() == "Namespace") != namespaces {
				continue
			}
			g.Go(func() error {
				body, err := json.Marshal(o.Object)
				if err != nil {
					return fmt.Errorf("encode %s: %w", o.GetName(), err)
				}
				if _, err = client.Post().AbsPath(path(o)).SetHeader("Content-Type", "application/json").Body(body).Do(
					gctx,
				).Raw(); err != nil {
					return fmt.Errorf("create %s %s/%s: %w", o.GetKind(), o.GetNamespace(), o.GetName(), err)
				}
				return nil
			})
		}
		if err := g.Wait(); err != nil {
			return err
		}
	}
	return nil
}

// path returns the URL path at which objects of the type of o are created.
func path(o Object) string {
	p := "/apis/" + o.GetAPIVersion()
	if o.GroupVersionKind().Group == "" {
		p = "/api/" + o.GetAPIVersion()
	}
	if ns := o.GetNamespace(); ns != "" {
		p += "/namespaces/" + ns
	}
	return p + "/" + o.Resource
}
