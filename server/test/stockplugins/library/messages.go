package library

import "time"

// XXX_NoUnkeyedLiteral makes a struct with protobuf tags a message. The code that was generated in 2019 had these
// methods in each message. The protobuf library of that year ignores fields of this name.
type XXX_NoUnkeyedLiteral struct{}

func (XXX_NoUnkeyedLiteral) Reset()         {}
func (XXX_NoUnkeyedLiteral) String() string { return "" }
func (XXX_NoUnkeyedLiteral) ProtoMessage()  {}

// These messages are shared by several kinds.
type (
	Empty struct{ XXX_NoUnkeyedLiteral }

	Stack struct {
		XXX_NoUnkeyedLiteral
		Frames []*StackFrame `protobuf:"bytes,1,rep,name=frames,proto3"`
	}
	StackFrame struct {
		XXX_NoUnkeyedLiteral
		File     string `protobuf:"bytes,1,opt,name=file,proto3"`
		Line     int32  `protobuf:"varint,2,opt,name=line,proto3"`
		Function string `protobuf:"bytes,3,opt,name=function,proto3"`
	}
	ResourceIdentifier struct {
		XXX_NoUnkeyedLiteral
		Group     string `protobuf:"bytes,1,opt,name=group,proto3"`
		Resource  string `protobuf:"bytes,2,opt,name=resource,proto3"`
		Namespace string `protobuf:"bytes,3,opt,name=namespace,proto3"`
		Name      string `protobuf:"bytes,4,opt,name=name,proto3"`
	}
	ResourceSelector struct {
		XXX_NoUnkeyedLiteral
		IncludedNamespaces []string `protobuf:"bytes,1,rep,name=includedNamespaces,proto3"`
		ExcludedNamespaces []string `protobuf:"bytes,2,rep,name=excludedNamespaces,proto3"`
		IncludedResources  []string `protobuf:"bytes,3,rep,name=includedResources,proto3"`
		ExcludedResources  []string `protobuf:"bytes,4,rep,name=excludedResources,proto3"`
		Selector           string   `protobuf:"bytes,5,opt,name=selector,proto3"`
	}
	Timestamp struct {
		XXX_NoUnkeyedLiteral
		Seconds int64 `protobuf:"varint,1,opt,name=seconds,proto3"`
		Nanos   int32 `protobuf:"varint,2,opt,name=nanos,proto3"`
	}
	OperationProgress struct {
		XXX_NoUnkeyedLiteral
		Completed      bool       `protobuf:"varint,1,opt,name=completed,proto3"`
		Err            string     `protobuf:"bytes,2,opt,name=err,proto3"`
		NCompleted     int64      `protobuf:"varint,3,opt,name=nCompleted,proto3"`
		NTotal         int64      `protobuf:"varint,4,opt,name=nTotal,proto3"`
		OperationUnits string     `protobuf:"bytes,5,opt,name=operationUnits,proto3"`
		Description    string     `protobuf:"bytes,6,opt,name=description,proto3"`
		Started        *Timestamp `protobuf:"bytes,7,opt,name=started,proto3"`
		Updated        *Timestamp `protobuf:"bytes,8,opt,name=updated,proto3"`
	}
)

// XXX_MessageName returns the name of a Stack in the details of an error.
func (*Stack) XXX_MessageName() string { return "generated.Stack" }

// At returns the Timestamp of a time.
func At(t time.Time) *Timestamp { return &Timestamp{Seconds: t.Unix(), Nanos: int32(t.Nanosecond())} }

// These messages belong to PluginLister.
type (
	PluginIdentifier struct {
		XXX_NoUnkeyedLiteral
		Command string `protobuf:"bytes,1,opt,name=command,proto3"`
		Kind    string `protobuf:"bytes,2,opt,name=kind,proto3"`
		Name    string `protobuf:"bytes,3,opt,name=name,proto3"`
	}
	ListPluginsResponse struct {
		XXX_NoUnkeyedLiteral
		Plugins []*PluginIdentifier `protobuf:"bytes,1,rep,name=plugins,proto3"`
	}
)

// These messages belong to item actions. The requests for backups and deletions are equal, those for restores differ.
type (
	AppliesToRequest struct {
		XXX_NoUnkeyedLiteral
		Plugin string `protobuf:"bytes,1,opt,name=plugin,proto3"`
	}
	AppliesToResponse struct {
		XXX_NoUnkeyedLiteral
		ResourceSelector *ResourceSelector `protobuf:"bytes,1,opt,name=ResourceSelector,proto3"`
	}
	ItemRequest struct {
		XXX_NoUnkeyedLiteral
		Plugin string `protobuf:"bytes,1,opt,name=plugin,proto3"`
		Item   []byte `protobuf:"bytes,2,opt,name=item,proto3"`
		Backup []byte `protobuf:"bytes,3,opt,name=backup,proto3"`
	}
	BackupItemResponse struct {
		XXX_NoUnkeyedLiteral
		Item               []byte                `protobuf:"bytes,1,opt,name=item,proto3"`
		AdditionalItems    []*ResourceIdentifier `protobuf:"bytes,2,rep,name=additionalItems,proto3"`
		OperationID        string                `protobuf:"bytes,3,opt,name=operationID,proto3"`
		PostOperationItems []*ResourceIdentifier `protobuf:"bytes,4,rep,name=postOperationItems,proto3"`
	}
	RestoreItemRequest struct {
		XXX_NoUnkeyedLiteral
		Plugin         string `protobuf:"bytes,1,opt,name=plugin,proto3"`
		Item           []byte `protobuf:"bytes,2,opt,name=item,proto3"`
		Restore        []byte `protobuf:"bytes,3,opt,name=restore,proto3"`
		ItemFromBackup []byte `protobuf:"bytes,4,opt,name=itemFromBackup,proto3"`
	}
	RestoreItemResponse struct {
		XXX_NoUnkeyedLiteral
		Item                   []byte                `protobuf:"bytes,1,opt,name=item,proto3"`
		AdditionalItems        []*ResourceIdentifier `protobuf:"bytes,2,rep,name=additionalItems,proto3"`
		SkipRestore            bool                  `protobuf:"varint,3,opt,name=skipRestore,proto3"`
		OperationID            string                `protobuf:"bytes,4,opt,name=operationID,proto3"`
		WaitForAdditionalItems bool                  `protobuf:"varint,5,opt,name=waitForAdditionalItems,proto3"`
		// a Duration has the same fields
		AdditionalItemsReadyTimeout *Timestamp `protobuf:"bytes,6,opt,name=additionalItemsReadyTimeout,proto3"`
	}
	OperationRequest struct {
		XXX_NoUnkeyedLiteral
		Plugin      string `protobuf:"bytes,1,opt,name=plugin,proto3"`
		OperationID string `protobuf:"bytes,2,opt,name=operationID,proto3"`
		Owner       []byte `protobuf:"bytes,3,opt,name=owner,proto3"`
	}
	ProgressResponse struct {
		XXX_NoUnkeyedLiteral
		Progress *OperationProgress `protobuf:"bytes,1,opt,name=progress,proto3"`
	}
	ItemsReadyRequest struct {
		XXX_NoUnkeyedLiteral
		Plugin          string                `protobuf:"bytes,1,opt,name=plugin,proto3"`
		Restore         []byte                `protobuf:"bytes,2,opt,name=restore,proto3"`
		AdditionalItems []*ResourceIdentifier `protobuf:"bytes,3,rep,name=additionalItems,proto3"`
	}
	ItemsReadyResponse struct {
		XXX_NoUnkeyedLiteral
		Ready bool `protobuf:"varint,1,opt,name=ready,proto3"`
	}
	RelatedItemsResponse struct {
		XXX_NoUnkeyedLiteral
		RelatedItems []*ResourceIdentifier `protobuf:"bytes,1,rep,name=relatedItems,proto3"`
	}
)

// These messages belong to ObjectStore and VolumeSnapshotter.
type (
	InitRequest struct {
		XXX_NoUnkeyedLiteral
		Plugin string            `protobuf:"bytes,1,opt,name=plugin,proto3"`
		Config map[string]string `protobuf:"bytes,2,rep,name=config,proto3" protobuf_key:"bytes,1,opt,name=key,proto3" protobuf_val:"bytes,2,opt,name=value,proto3"`
	}
	PutObjectRequest struct {
		XXX_NoUnkeyedLiteral
		Plugin string `protobuf:"bytes,1,opt,name=plugin,proto3"`
		Bucket string `protobuf:"bytes,2,opt,name=bucket,proto3"`
		Key    string `protobuf:"bytes,3,opt,name=key,proto3"`
		Body   []byte `protobuf:"bytes,4,opt,name=body,proto3"`
	}
	ObjectRequest struct {
		XXX_NoUnkeyedLiteral
		Plugin string `protobuf:"bytes,1,opt,name=plugin,proto3"`
		Bucket string `protobuf:"bytes,2,opt,name=bucket,proto3"`
		Key    string `protobuf:"bytes,3,opt,name=key,proto3"` // the prefix in ListObjects
	}
	ObjectExistsResponse struct {
		XXX_NoUnkeyedLiteral
		Exists bool `protobuf:"varint,1,opt,name=exists,proto3"`
	}
	Bytes struct {
		XXX_NoUnkeyedLiteral
		Data []byte `protobuf:"bytes,1,opt,name=data,proto3"`
	}
	ListCommonPrefixesRequest struct {
		XXX_NoUnkeyedLiteral
		Plugin    string `protobuf:"bytes,1,opt,name=plugin,proto3"`
		Bucket    string `protobuf:"bytes,2,opt,name=bucket,proto3"`
		Delimiter string `protobuf:"bytes,3,opt,name=delimiter,proto3"`
		Prefix    string `protobuf:"bytes,4,opt,name=prefix,proto3"`
	}
	NamesResponse struct {
		XXX_NoUnkeyedLiteral
		Names []string `protobuf:"bytes,1,rep,name=names,proto3"` // prefixes or keys
	}
	CreateSignedURLRequest struct {
		XXX_NoUnkeyedLiteral
		Plugin string `protobuf:"bytes,1,opt,name=plugin,proto3"`
		Bucket string `protobuf:"bytes,2,opt,name=bucket,proto3"`
		Key    string `protobuf:"bytes,3,opt,name=key,proto3"`
		TTL    int64  `protobuf:"varint,4,opt,name=ttl,proto3"`
	}
	TextResponse struct {
		XXX_NoUnkeyedLiteral
		Text string `protobuf:"bytes,1,opt,name=text,proto3"` // a URL, the id of a volume or of a snapshot
	}
	CreateVolumeRequest struct {
		XXX_NoUnkeyedLiteral
		Plugin     string `protobuf:"bytes,1,opt,name=plugin,proto3"`
		SnapshotID string `protobuf:"bytes,2,opt,name=snapshotID,proto3"`
		VolumeType string `protobuf:"bytes,3,opt,name=volumeType,proto3"`
		VolumeAZ   string `protobuf:"bytes,4,opt,name=volumeAZ,proto3"`
		Iops       int64  `protobuf:"varint,5,opt,name=iops,proto3"`
	}
	VolumeRequest struct {
		XXX_NoUnkeyedLiteral
		Plugin   string            `protobuf:"bytes,1,opt,name=plugin,proto3"`
		VolumeID string            `protobuf:"bytes,2,opt,name=volumeID,proto3"` // the id of the snapshot in DeleteSnapshot
		VolumeAZ string            `protobuf:"bytes,3,opt,name=volumeAZ,proto3"`
		Tags     map[string]string `protobuf:"bytes,4,rep,name=tags,proto3" protobuf_key:"bytes,1,opt,name=key,proto3" protobuf_val:"bytes,2,opt,name=value,proto3"`
	}
	GetVolumeInfoResponse struct {
		XXX_NoUnkeyedLiteral
		VolumeType string `protobuf:"bytes,1,opt,name=volumeType,proto3"`
		Iops       int64  `protobuf:"varint,2,opt,name=iops,proto3"`
	}
	PersistentVolumeRequest struct {
		XXX_NoUnkeyedLiteral
		Plugin           string `protobuf:"bytes,1,opt,name=plugin,proto3"`
		PersistentVolume []byte `protobuf:"bytes,2,opt,name=persistentVolume,proto3"`
		VolumeID         string `protobuf:"bytes,3,opt,name=volumeID,proto3"`
	}
	PersistentVolumeResponse struct {
		XXX_NoUnkeyedLiteral
		PersistentVolume []byte `protobuf:"bytes,1,opt,name=persistentVolume,proto3"`
	}
)
