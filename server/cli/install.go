package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/cleat-dev/cleat/framework/api/velero/crds"
	"github.com/cleat-dev/cleat/server/cli/command"
)

func newInstallCommand(a *command.App) *cobra.Command {
	var definitionsOnly bool
	cmd := &cobra.Command{
		Use:   "install --crds-only",
		Short: "Install the custom resource definitions, or bring them up to date",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !definitionsOnly {
				return errors.New("only the custom resource definitions can be installed so far: cleat install --crds-only")
			}
			s, err := a.Cluster.Connect()
			if err != nil {
				return err
			}
			return installDefinitions(cmd.Context(), a, s)
		},
	}
	cmd.Flags().BoolVar(&definitionsOnly, "crds-only", false, "install the custom resource definitions and nothing else")
	return cmd
}

// establishTimeout is how long the API server may take to serve a definition.
const establishTimeout = 2 * time.Minute

// installDefinitions creates or updates the definitions, then waits until all are served.
func installDefinitions(ctx context.Context, a *command.App, s *command.Cluster) error {
	if err := apiextensionsv1.AddToScheme(s.Scheme()); err != nil {
		return fmt.Errorf("build the scheme: %w", err)
	}
	documents, err := crds.All()
	if err != nil {
		return err
	}
	var definitions []*apiextensionsv1.CustomResourceDefinition
	for _, document := range documents {
		var definition apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(document, &definition); err != nil {
			return fmt.Errorf("decode an embedded definition: %w", err)
		}
		done, err := applyDefinition(ctx, s, &definition)
		if err != nil {
			return fmt.Errorf("install custom resource definition %s: %w", definition.Name, err)
		}
		fmt.Fprintf(a.Out, "customresourcedefinition/%s %s\n", definition.Name, done)
		definitions = append(definitions, &definition)
	}
	for _, definition := range definitions {
		if err := awaitServed(ctx, s, definition); err != nil {
			return err
		}
	}
	return nil
}

// applyDefinition creates a definition, or replaces the spec of the one that is there.
func applyDefinition(ctx context.Context, s *command.Cluster, definition *apiextensionsv1.CustomResourceDefinition) (string, error) {
	err := s.Create(ctx, definition.DeepCopy())
	if err == nil {
		return "created", nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return "", err
	}
	for {
		var there apiextensionsv1.CustomResourceDefinition
		if err := s.Get(ctx, client.ObjectKeyFromObject(definition), &there); err != nil {
			return "", err
		}
		there.Spec = definition.Spec
		there.Labels = definition.Labels
		err := s.Update(ctx, &there)
		if err == nil {
			return "configured", nil
		}
		if !apierrors.IsConflict(err) {
			return "", err
		}
	}
}

// awaitServed waits until a definition is established and clients discover it, which is a little later.
func awaitServed(ctx context.Context, s *command.Cluster, definition *apiextensionsv1.CustomResourceDefinition) error {
	kind := schema.GroupKind{Group: definition.Spec.Group, Kind: definition.Spec.Names.Kind}
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, establishTimeout, true, func(ctx context.Context) (bool, error) {
		var there apiextensionsv1.CustomResourceDefinition
		if err := s.Get(ctx, client.ObjectKeyFromObject(definition), &there); err != nil {
			return false, err
		}
		established := slices.ContainsFunc(there.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
			return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
		})
		if !established {
			return false, nil
		}
		_, err := s.RESTMapper().RESTMapping(kind)
		if meta.IsNoMatchError(err) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return fmt.Errorf("wait until custom resource definition %s is served: %w", definition.Name, err)
	}
	return nil
}
