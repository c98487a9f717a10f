package install

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// clusterName returns the name of the installation's objects outside its namespace: Velero's.
func clusterName(namespace string) string { return outsideName(component, namespace) }

// outsideName returns the name of something outside of the namespace of the installation to which it belongs.
func outsideName(name, namespace string) string {
	if namespace == component {
		return name
	}
	return name + "-" + namespace
}

// rbac returns the rights of the service account of the server: all rights, or the rights that it needs for some
// namespaces.
func rbac(o *Options) []runtime.Object {
	if o.Namespaces == nil {
		return []runtime.Object{clusterBinding(o, component, clusterName(o.Namespace), "cluster-admin")}
	}
	name := clusterName(o.Namespace)
	objects := rights(o, component, name, clusterRules(o), ownRules())
	for _, namespace := range o.Namespaces {
		meta := outsideMeta(o, namespace, name)
		objects = append(objects, &rbacv1.Role{TypeMeta: roleType, ObjectMeta: meta, Rules: namespaceRules()},
			roleBinding(o, component, meta))
	}
	return objects
}

// agentAccount returns the name of the service account of the node agents: the account of the server, as in Velero, or
// one with fewer rights.
func agentAccount(o *Options, server string) string {
	if o.Namespaces == nil {
		return server
	}
	return DaemonSetName
}

// agentRBAC returns the rights of the service account of the node agents.
func agentRBAC(o *Options) []runtime.Object {
	name := outsideName("cleat-"+DaemonSetName, o.Namespace)
	objects := rights(o, DaemonSetName, name, agentClusterRules(o), agentRules(o))
	for _, namespace := range o.Namespaces {
		meta := outsideMeta(o, namespace, name)
		objects = append(objects, &rbacv1.Role{TypeMeta: roleType, ObjectMeta: meta, Rules: agentNamespaceRules(o)},
			roleBinding(o, DaemonSetName, meta))
	}
	return objects
}

// rights returns what gives a service account the rights of some rules, in the cluster and in the namespace of the
// installation.
func rights(o *Options, account, clusterRole string, cluster, own []rbacv1.PolicyRule) []runtime.Object {
	meta := objectMeta(o, account)
	return []runtime.Object{
		&rbacv1.ClusterRole{
			TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
			ObjectMeta: outsideMeta(o, "", clusterRole),
			Rules:      cluster,
		},
		clusterBinding(o, account, clusterRole, clusterRole),
		&rbacv1.Role{TypeMeta: roleType, ObjectMeta: meta, Rules: own},
		roleBinding(o, account, meta),
	}
}

var roleType = metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "Role"}

func rule(group string, resources []string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
}

// clusterRules returns the rights of a server outside of namespaces: it reads objects that the objects of a namespace
// refer to. It writes the contents of CSI snapshots and volumes with restored data, with AllVolumes only.
func clusterRules(o *Options) []rbacv1.PolicyRule {
	rules := []rbacv1.PolicyRule{
		rule("", []string{"namespaces"}, "get", "list", "watch"),
		rule("", []string{"persistentvolumes"}, "get", "list"),
		rule("apiextensions.k8s.io", []string{"customresourcedefinitions"}, "get", "list"),
		rule("rbac.authorization.k8s.io", []string{"clusterroles", "clusterrolebindings"}, "get", "list"),
		rule("storage.k8s.io", []string{"storageclasses"}, "get", "list"),
	}
	if !o.AllVolumes {
		return rules
	}
	if o.CSISnapshots {
		rules = append(rules,
			rule(snapshotGroup, []string{"volumesnapshotclasses"}, "get", "list"),
			rule(snapshotGroup, []string{"volumesnapshotcontents"}, "get", "list", "create", "patch", "delete"),
			rule(snapshotGroup, []string{"volumesnapshotcontents/status"}, "patch"), // to take snapshots out of their group
			rule(snapshotGroup, []string{"volumesnapshots"}, "list"),                // the loads of a backup, in any namespace
			rule(groupSnapshotGroup, []string{"volumegroupsnapshotclasses", "volumegroupsnapshots"}, "list"),
			rule(groupSnapshotGroup, []string{"volumegroupsnapshotcontents"}, "get", "list", "patch", "delete"),
		)
	}
	return append(rules, rule("", []string{"persistentvolumes"}, "patch")) // labels and reclaim policy of restored ones
}

const (
	snapshotGroup      = "snapshot.storage.k8s.io"
	groupSnapshotGroup = "groupsnapshot.storage.k8s.io"
)

// agentClusterRules returns the rights of a node agent outside of namespaces: its node, and volumes. To move the data
// of CSI snapshots, it takes over their contents, and hands over volumes to restored claims, with AllVolumes only.
func agentClusterRules(o *Options) []rbacv1.PolicyRule {
	rules := []rbacv1.PolicyRule{rule("", []string{"nodes", "persistentvolumes"}, "get")}
	if o.CSISnapshots && o.AllVolumes {
		rules = append(rules,
			rule(snapshotGroup, []string{"volumesnapshotcontents"}, "get", "create", "patch", "delete"),
			rule(snapshotGroup, []string{"volumesnapshotcontents/status"}, "patch"), // to take snapshots out of their group
			rule("", []string{"persistentvolumes"}, "list", "patch"),
			rule("storage.k8s.io", []string{"storageclasses"}, "get"),
		)
	}
	return rules
}

// agentNamespaceRules returns the rights of a node agent in a namespace whose volumes it opens: it reads the pods of
// its node, and their claims. To move the data of CSI snapshots, it takes over snapshots, and hands over volumes to
// restored claims.
func agentNamespaceRules(o *Options) []rbacv1.PolicyRule {
	rules := volumeRules()
	if o.CSISnapshots {
		rules = append(rules,
			rule(snapshotGroup, []string{"volumesnapshots"}, "get", "delete"),
			rule("", []string{"persistentvolumeclaims"}, "patch"),
		)
	}
	return rules
}

// volumeRules returns what finding the volumes of pods needs.
func volumeRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule("", []string{"pods"}, "get", "list", "watch"),
		rule("", []string{"persistentvolumeclaims"}, "get"),
	}
}

// agentRules returns the rights of a node agent in the namespace of the installation: loads, repositories with their
// password, locations with their credentials, the ledger, and events. It makes pods that move loads. To move the data
// of CSI snapshots, it makes pods and claims that expose their volumes.
func agentRules(o *Options) []rbacv1.PolicyRule {
	rules := []rbacv1.PolicyRule{
		rule("", []string{"namespaces"}, "get"),
		rule("velero.io", []string{"podvolumebackups", "podvolumerestores", "datauploads", "datadownloads"}, "get", "list",
			"watch", "patch"),
		rule("velero.io", []string{"backuprepositories"}, "get", "list", "create", "patch"),
		rule("velero.io", []string{"backupstoragelocations"}, "get"),
		rule("velero.io", []string{"backups", "restores"}, "get"), // that a load belongs to
		rule("", []string{"configmaps"}, "get", "list", "watch", "create", "update"),
		rule("", []string{"secrets"}, "get", "create"),
		rule("events.k8s.io", []string{"events"}, "create", "patch"),
	}
	rules = append(rules, volumeRules()...) // of the pods that expose volumes
	rules = append(rules, rule("", []string{"pods"}, "create", "delete"))
	if o.CSISnapshots {
		rules = append(rules,
			rule(snapshotGroup, []string{"volumesnapshots"}, "get", "create", "delete"),
			rule("", []string{"persistentvolumeclaims"}, "create", "delete"),
		)
	}
	return rules
}

// ownRules returns the rights of a server in its own namespace: its custom resources, their journal, its lease, its
// events, credentials, pods, and the jobs that maintain repositories.
func ownRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule("velero.io", []string{rbacv1.ResourceAll}, "get", "list", "watch", "create", "update", "patch", "delete"),
		rule("", []string{"configmaps"}, "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"),
		rule("", []string{"secrets"}, "get", "create"), // credentials, and the key with which the server signs
		// Its own pod, and those of node agents and of the jobs that maintain repositories.
		rule("", []string{"pods"}, "get", "list"),
		rule("batch", []string{"jobs"}, "get", "list", "create", "delete"),
		rule("apps", []string{"deployments"}, "get"), // its own, for the image of the init containers of restored pods
		rule("", []string{"events"}, "create", "patch"),
		rule("events.k8s.io", []string{"events"}, "create", "patch"),
		rule("coordination.k8s.io", []string{"leases"}, "get", "create", "update", "patch"),
	}
}

// namespaceRules returns the rights of a server in a namespace that it backs up and restores: all rights, because the
// namespace may hold resources of any kind, and only an account with the rights of a Role can restore it.
func namespaceRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{rule(rbacv1.APIGroupAll, []string{rbacv1.ResourceAll}, rbacv1.VerbAll)}
}

// outsideMeta returns the metadata of an object outside the namespace of the installation.
func outsideMeta(o *Options, namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name,
		Labels: labels(map[string]string{installationLabel: o.Namespace})}
}

func subjects(o *Options, account string) []rbacv1.Subject {
	return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: o.Namespace, Name: account}}
}

func clusterBinding(o *Options, account, name, role string) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRoleBinding"},
		ObjectMeta: outsideMeta(o, "", name),
		Subjects:   subjects(o, account),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
	}
}

// roleBinding returns the binding of the Role with the same name.
func roleBinding(o *Options, account string, meta metav1.ObjectMeta) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "RoleBinding"},
		ObjectMeta: meta,
		Subjects:   subjects(o, account),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
	}
}
