package library

import (
	"context"
	"io"
	"reflect"

	"google.golang.org/grpc"
)

// kind is a kind of plugin on the wire.
type kind struct {
	name    string // as in ListPlugins
	service string
	calls   map[string]interface{} // the request of each unary method, which the implementation has too
	streams []grpc.StreamDesc
}

// kinds returns all kinds, in the order of ListPlugins.
func kinds() []kind {
	return []kind{
		{name: "BackupItemAction", service: "generated.BackupItemAction", calls: map[string]interface{}{
			"AppliesTo": AppliesToRequest{}, "Execute": ItemRequest{},
		}},
		{name: "BackupItemActionV2", service: "v2.BackupItemAction", calls: map[string]interface{}{
			"AppliesTo": AppliesToRequest{}, "Execute": ItemRequest{}, "Progress": OperationRequest{},
			"Cancel": OperationRequest{},
		}},
		{name: "VolumeSnapshotter", service: "generated.VolumeSnapshotter", calls: map[string]interface{}{
			"Init": InitRequest{}, "CreateVolumeFromSnapshot": CreateVolumeRequest{}, "GetVolumeInfo": VolumeRequest{},
			"CreateSnapshot": VolumeRequest{}, "DeleteSnapshot": VolumeRequest{},
			"GetVolumeID": PersistentVolumeRequest{}, "SetVolumeID": PersistentVolumeRequest{},
		}},
		{name: "ObjectStore", service: "generated.ObjectStore", calls: map[string]interface{}{
			"Init": InitRequest{}, "ObjectExists": ObjectRequest{}, "ListCommonPrefixes": ListCommonPrefixesRequest{},
			"ListObjects": ObjectRequest{}, "DeleteObject": ObjectRequest{}, "CreateSignedURL": CreateSignedURLRequest{},
		}, streams: []grpc.StreamDesc{
			{StreamName: "PutObject", Handler: guardStream(putObject), ClientStreams: true},
			{StreamName: "GetObject", Handler: guardStream(getObject), ServerStreams: true},
		}},
		{name: "RestoreItemAction", service: "generated.RestoreItemAction", calls: map[string]interface{}{
			"AppliesTo": AppliesToRequest{}, "Execute": RestoreItemRequest{},
		}},
		{name: "RestoreItemActionV2", service: "v2.RestoreItemAction", calls: map[string]interface{}{
			"AppliesTo": AppliesToRequest{}, "Execute": RestoreItemRequest{}, "Progress": OperationRequest{},
			"Cancel": OperationRequest{}, "AreAdditionalItemsReady": ItemsReadyRequest{},
		}},
		{name: "DeleteItemAction", service: "generated.DeleteItemAction", calls: map[string]interface{}{
			"AppliesTo": AppliesToRequest{}, "Execute": ItemRequest{},
		}},
		{name: "ItemBlockAction", service: "v1.ItemBlockAction", calls: map[string]interface{}{
			"AppliesTo": AppliesToRequest{}, "GetRelatedItems": ItemRequest{},
		}},
	}
}

// desc returns the gRPC service of a kind. Its server is a *handlers.
func (k kind) desc() *grpc.ServiceDesc {
	desc := &grpc.ServiceDesc{ServiceName: k.service, HandlerType: (*interface{})(nil), Streams: k.streams}
	for method, request := range k.calls {
		method, request := method, reflect.TypeOf(request)
		desc.Methods = append(desc.Methods, grpc.MethodDesc{
			MethodName: method,
			Handler: func(srv interface{}, _ context.Context, decode func(interface{}) error,
				_ grpc.UnaryServerInterceptor) (_ interface{}, err error) {
				defer recoverTo(&err)
				in := reflect.New(request)
				if err := decode(in.Interface()); err != nil {
					return nil, err
				}
				impl, err := srv.(*handlers).get(in.Elem().FieldByName("Plugin").String())
				if err != nil {
					return nil, toStatus(err)
				}
				out := reflect.ValueOf(impl).MethodByName(method).Call([]reflect.Value{in})
				if failed, ok := out[1].Interface().(error); ok {
					return nil, toStatus(failed)
				}
				return out[0].Interface(), nil
			},
		})
	}
	return desc
}

// Store has the methods of an ObjectStore that are not unary.
type Store interface {
	PutObject(bucket, key string, body io.Reader) error
	GetObject(bucket, key string) (io.ReadCloser, error)
}

func guardStream(handle grpc.StreamHandler) grpc.StreamHandler {
	return func(srv interface{}, stream grpc.ServerStream) (err error) {
		defer recoverTo(&err)
		return toStatus(handle(srv, stream))
	}
}

func putObject(srv interface{}, stream grpc.ServerStream) error {
	first := &PutObjectRequest{}
	if err := stream.RecvMsg(first); err != nil { // including io.EOF for an empty object, which has no first message
		return err
	}
	store, err := srv.(*handlers).get(first.Plugin)
	if err != nil {
		return err
	}
	if err := store.(Store).PutObject(first.Bucket, first.Key, &body{stream: stream, rest: first.Body}); err != nil {
		return err
	}
	return stream.SendMsg(&Empty{})
}

// body reads the content of the first and the following messages.
type body struct {
	stream grpc.ServerStream
	rest   []byte
}

func (b *body) Read(p []byte) (int, error) {
	for len(b.rest) == 0 {
		next := &PutObjectRequest{}
		if err := b.stream.RecvMsg(next); err != nil {
			return 0, err
		}
		b.rest = next.Body
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

func getObject(srv interface{}, stream grpc.ServerStream) error {
	in := &ObjectRequest{}
	if err := stream.RecvMsg(in); err != nil {
		return err
	}
	store, err := srv.(*handlers).get(in.Plugin)
	if err != nil {
		return err
	}
	object, err := store.(Store).GetObject(in.Bucket, in.Key)
	if err != nil {
		return err
	}
	defer object.Close()
	chunk := make([]byte, 16384)
	for {
		n, err := object.Read(chunk)
		if n > 0 {
			if err := stream.SendMsg(&Bytes{Data: chunk[:n]}); err != nil {
				return err
			}
		}
		if err == io.EOF || err == nil && n == 0 {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
